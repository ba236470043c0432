// The sequences that planner `remake` searches through, on real graphs: what is reckoned run by run is what the whole comes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "../step_runs.h"
#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/analysis/order.h"
#include "plan/remaking/annealing.h"
#include "plan/remaking/group_search.h"
#include "plan/remaking/tile_groups.h"
#include "plan/swap/spill.h"
#include "search/prepare.h"

namespace outsize {
namespace {

struct Case {
  const char* model;
  // Values in tiles.
  std::vector<const char*> within = {}, with = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

class Remade : public testing::TestWithParam<Case> {
 protected:
  static StepGraph step_of(const std::string& name) {
    register_ops();
    ModelOptions model{.batch = 2, .classes = 10, .width = 0.125};
    if (name != "gpt2") model.image_height = model.image_width = 96;
    return make_training_graph(build_model(name, model), {.accuracy = true});
  }

  // Random changes, kept and undone.
  void change_at_random(const RemakeProblem& problem);
  void expect_what_lives_say(const RemakeProblem& problem, const RunSequence& changed) const {
    const SequenceRuns made = runs_of(problem, changed.sequence());
    const Lives lives = lives_of(request_, costs_, made.runs, {}, made.splits);
    ASSERT_EQ(changed.peak(), std::ranges::max(lives.bytes()));
    ASSERT_NEAR(changed.seconds(), std::accumulate(lives.seconds.begin(), lives.seconds.end(), 0.0), 1e-9);
    ASSERT_EQ(changed.peak(), RunSequence(problem, changed.sequence()).peak());
  }

  const StepGraph step_ = step_of(GetParam().model);
  const std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
  const Profile profile_{find_device("cpu"), {}};
  const PlanRequest request_{
      .graph = step_.graph, .profile = profile_, .storage = backend_->storage(), .workspace = [this](const Call& call) {
        return backend_->kernel(call)->workspace_bytes();
      }};
  const OpCosts costs_ = costs_of(request_);
  const std::vector<OpId> order_ = eager_order(step_.graph, narrow_order(step_.graph));
};

void Remade::change_at_random(const RemakeProblem& problem) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(problem.ops.size()));
  std::iota(order.begin(), order.end(), 0);
  RunSequence runs(problem, order);
  expect_what_lives_say(problem, runs);
  Chance chance(3);
  int undone = 0, moved = 0;
  for (int move = 0; move < 600 && !HasFatalFailure(); ++move) {
    const std::int64_t peak_before = runs.peak();
    const double seconds_before = runs.seconds();
    for (std::int64_t k = chance.below(3); k >= 0; --k) {
      // An input of some run again, right before it.
      const auto at = static_cast<RunSequence::Id>(chance.below(problem.ops.size()));
      const std::vector<std::int32_t>& inputs = problem.ops[runs.op_of(at)].inputs;
      if (inputs.empty()) continue;
      const std::int32_t input = inputs[static_cast<std::size_t>(chance.below(std::ssize(inputs)))];
      if (problem.is_again(input)) runs.insert(problem.values[input].producer, at);
      if (!runs.further().empty() && chance.part() < 0.3)
        runs.erase(runs.further()[static_cast<std::size_t>(chance.below(std::ssize(runs.further())))]);
      if (chance.part() < 0.3) moved += runs.reorder(static_cast<RunSequence::Id>(chance.below(problem.ops.size())), at);
    }
    runs.settle();
    if (chance.part() < 0.4) {
      runs.undo();
      ++undone;
      ASSERT_EQ(runs.peak(), peak_before);
      ASSERT_NEAR(runs.seconds(), seconds_before, 1e-9);
    } else {
      runs.keep();
    }
    if (move % 20 == 0) expect_what_lives_say(problem, runs);
  }
  expect_what_lives_say(problem, runs);
  EXPECT_GT(undone, 100);
  EXPECT_GT(moved, 5);
  EXPECT_GT(runs.further().size(), 20u);
}

TEST_P(Remade, ChangesComeToWhatLivesSay) {
  TileGroups groups(request_, costs_, order_, largest_op(remake_problem(request_, costs_, whole_units(step_.graph, order_))));
  InTiles in_tiles;
  for (const char* name : GetParam().within) {
    const ValueId value = step_.graph.find_value(name);
    ASSERT_TRUE(value && groups.may_be_within(value)) << name;
    for (const OpId reader : step_.graph.value(value).consumers) in_tiles.within.insert({value, reader});
  }
  for (const char* name : GetParam().with) {
    const ValueId value = step_.graph.find_value(name);
    ASSERT_TRUE(value && groups.may_be_with(value)) << name;
    in_tiles.with.insert(value);
  }
  const std::optional<Table<RunUnit>> units = groups.units(in_tiles);
  ASSERT_TRUE(units);
  EXPECT_EQ(in_tiles == InTiles{}, std::ranges::none_of(*units, [](const RunUnit& unit) { return unit.tiles.has_value(); }));
  change_at_random(remake_problem(request_, costs_, *units));
}

INSTANTIATE_TEST_SUITE_P(Zoo, Remade,
                         testing::Values(Case{"resnet50"}, Case{"unet2d"}, Case{"densenet121"}, Case{"gpt2"},
                                         Case{"unet2d", {"concat0", "up0"}, {"merge0.conv1.grad_data", "down4.conv2.grad_weight"}}),
                         [](const auto& one) {
                           return std::string(one.param.model) + (one.param.within.empty() ? "" : "_in_tiles");
                         });

// Networks in which single ops are too large for the budget, as narrow as they can be with the proportions of the full ones.
struct LittleRoom {
  const char* model;
  std::int64_t batch, extent, depth;
  int percent;  // of what `keep` takes
};

void PrintTo(const LittleRoom& c, std::ostream* out) { *out << c.model << " " << c.percent; }

StepGraph narrow_step(const char* name, std::int64_t batch, std::int64_t extent, std::int64_t depth) {
  register_ops();
  ModelOptions model{.batch = batch, .image_height = extent, .image_width = extent, .image_depth = depth};
  model.classes = 10, model.width = 0.0625, model.dtype = DType::f64;
  return make_training_graph(build_model(name, model), {.accuracy = true});
}

Planned<Prepared> prepare_by(const std::string& planner, const StepGraph& step, Backend& backend, const Budgets& budgets) {
  PrepareOptions options;
  options.planner = planner;
  options.budgets = budgets;
  return prepare(step.graph, backend, Profile{find_device("cpu"), {}}, options);
}

class TileGroupsTrain : public testing::TestWithParam<LittleRoom> {};

// train() expects the measured peak to be the predicted one.
TEST_P(TileGroupsTrain, AsWholeValuesDo) {
  const StepGraph step = narrow_step(GetParam().model, GetParam().batch, GetParam().extent, GetParam().depth);
  const std::unique_ptr<Backend> backend = make_backend("reference", 2);
  const Prepared kept = prepare_by("keep", step, *backend, {}).take();
  const Budgets budgets{.device = kept.program.peak_bytes.device * GetParam().percent / 100, .host = 0, .disk = 0};
  const Planned<Prepared> whole = prepare_by("remake:tiles=false,moves=50000", step, *backend, budgets);
  EXPECT_FALSE(whole);
  Planned<Prepared> planned = prepare_by("remake", step, *backend, budgets);
  ASSERT_TRUE(planned) << planned.refusal().missing();
  const Prepared made = std::move(planned).take();
  EXPECT_LE(made.program.peak_bytes.device, budgets.device);
  const auto updates = [&](const Pass& pass) {
    return std::ranges::any_of(pass.ops, [&](OpId op) { return step.graph.op(op).phase == Phase::update; });
  };
  std::printf("%zu passes, %td of which update a weight\n", made.plan.passes.size(),
              std::ranges::count_if(made.plan.passes, updates));
  EXPECT_FALSE(made.plan.passes.empty());
  expect_close(step.graph, train(step, made.plan, *backend, true, 256, 1), train(step, kept.plan, *backend, true, 0, 1), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Zoo, TileGroupsTrain,
                         testing::Values(LittleRoom{"unet2d", 2, 64, 0, 42}, LittleRoom{"unet3d", 1, 24, 24, 33}),
                         [](const auto& one) { return std::string(one.param.model) + "_" + std::to_string(one.param.percent); });

// Units of all kinds, each op once: a gradient that is made with a weight's update, gradients that are made with all that read
// them, values that are made within all that read them, and such that one op alone reads in tiles, though another reads it whole
// later.
TEST(TileGroups, EveryKindTrainsAsWholeValuesDo) {
  const StepGraph step = narrow_step("unet2d", 2, 64, 0);
  const Graph& graph = step.graph;
  const std::unique_ptr<Backend> backend = make_backend("reference", 2);
  const Profile profile{find_device("cpu"), {}};
  const PlanRequest request{.graph = graph, .profile = profile, .storage = backend->storage()};
  const OpCosts costs = costs_of(request);
  const std::vector<OpId> order = eager_order(graph, narrow_order(graph));
  InTiles in_tiles;
  for (const char* name : {"merge0.conv1.grad_data", "concat0.grad.1", "merge0.bn2.grad_apply", "down4.conv2.grad_weight"})
    in_tiles.with.insert(graph.find_value(name));
  for (const char* name : {"concat0", "up0", "merge0.relu1", "head.grad_data"})
    for (const OpId reader : graph.value(graph.find_value(name)).consumers)
      in_tiles.within.insert({graph.find_value(name), reader});
  in_tiles.within.insert({graph.find_value("merge0.conv2"), graph.find_op("merge0.bn2.grad_apply")});
  in_tiles.within.insert({graph.find_value("down0.conv2"), graph.find_op("down0.bn2.grad_stats")});
  TileGroups groups(request, costs, order, lives_of(request, costs, order).bytes()[0]);
  const std::optional<Table<RunUnit>> units = groups.units(in_tiles);
  ASSERT_TRUE(units);
  const RemakeProblem problem = remake_problem(request, costs, *units);
  std::vector<std::int32_t> once(static_cast<std::size_t>(problem.ops.size()));
  std::iota(once.begin(), once.end(), 0);
  const SequenceRuns made = runs_of(problem, once);
  const Lives lives = lives_of(request, costs, made.runs, {}, made.splits);
  const Plan plan = spill_plan(request, "remake", lives, {.runs = made.runs, .splits = made.splits}).take();
  const auto has = [&](auto what) { return std::ranges::any_of(plan.passes, what); };
  EXPECT_TRUE(has([&](const Pass& pass) { return graph.op(pass.ops.back()).phase == Phase::update; }));
  EXPECT_TRUE(has([&](const Pass& pass) { return pass.inner == std::vector{graph.find_value("down0.conv2")}; }));
  EXPECT_EQ(print_plan(graph, parse_plan(graph, print_plan(graph, plan), "")), print_plan(graph, plan));
  const Plan kept = prepare_by("keep", step, *backend, {}).take().plan;
  expect_close(graph, train(step, plan, *backend, true, 256, 1), train(step, kept, *backend, true, 0, 1), 1e-9);
}

}  // namespace
}  // namespace outsize
