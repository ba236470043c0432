// The sequences that planner `remake` searches through, on real graphs: what is reckoned run by run is what the whole comes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/analysis/order.h"
#include "plan/remaking/annealing.h"
#include "plan/remaking/group_search.h"
#include "plan/remaking/tile_groups.h"

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

}  // namespace
}  // namespace outsize
