// The sequences that planner `remake` searches through, on real graphs: what is reckoned run by run is what the whole comes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "../close.h"
#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/analysis/order.h"
#include "plan/remaking/sequence_search.h"

namespace outsize {
namespace {

class Remade : public testing::TestWithParam<const char*> {};

TEST_P(Remade, ChangesComeToWhatLivesSay) {
  register_ops();
  ModelOptions model{.batch = 2, .classes = 10, .width = 0.125};
  if (std::string_view(GetParam()) != "gpt2") model.image_height = model.image_width = 96;
  const StepGraph step = make_training_graph(build_model(GetParam(), model), {.accuracy = true});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Profile profile{find_device("cpu"), {}};
  const PlanRequest request{
      .graph = step.graph, .profile = profile, .storage = backend->storage(), .workspace = [&](const Call& call) {
        return backend->kernel(call)->workspace_bytes();
      }};
  const OpCosts costs = costs_of(request);
  const RemakeProblem problem =
      remake_problem(request, costs, whole_units(step.graph, eager_order(step.graph, narrow_order(step.graph))));
  std::vector<std::int32_t> order(static_cast<std::size_t>(problem.ops.size()));
  std::iota(order.begin(), order.end(), 0);
  RunSequence runs(problem, order);
  const auto expect_same = [&](const RunSequence& changed) {
    const Lives lives = lives_of(request, costs, runs_of(problem, changed.sequence()).runs);
    const std::vector<std::int64_t> bytes = lives.bytes();
    ASSERT_EQ(changed.peak(), std::ranges::max(bytes));
    ASSERT_NEAR(changed.seconds(), std::accumulate(lives.seconds.begin(), lives.seconds.end(), 0.0), 1e-9);
    ASSERT_EQ(changed.peak(), RunSequence(problem, changed.sequence()).peak());
  };
  expect_same(runs);
  Chance chance(3);
  int undone = 0, moved = 0;
  for (int move = 0; move < 600; ++move) {
    const double peak_before = static_cast<double>(runs.peak()), seconds_before = runs.seconds();
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
      ASSERT_EQ(static_cast<double>(runs.peak()), peak_before);
      ASSERT_NEAR(runs.seconds(), seconds_before, 1e-9);
    } else {
      runs.keep();
    }
    if (move % 20 == 0) expect_same(runs);
    if (testing::Test::HasFatalFailure()) return;
  }
  expect_same(runs);
  EXPECT_GT(undone, 100);
  EXPECT_GT(moved, 5);
  EXPECT_GT(runs.further().size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Remade, testing::Values("resnet50", "unet2d", "densenet121", "gpt2"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace outsize
