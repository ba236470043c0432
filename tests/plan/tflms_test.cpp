#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "plan/planners/planners.h"
#include "steps.h"

namespace outsize {
namespace {

// On the chain of Figure 4 the level of an op is its number in the order, from 1: f1 … f4, b4 … b1.
class Tflms : public testing::Test {
 protected:
  static std::string plan(const Graph& graph, const std::string& options, double copy = 1, std::int64_t budget = kNoLimit) {
    const Profile seconds = second_an_op(copy);
    const PlannerChoice choice = choose_planner("tflms" + options);
    const Plan made =
        choice.planner
            .make({.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = budget}, .options = choice.options})
            .take();
    check_plan(graph, made);
    return steps_of(graph, made);
  }
};

// a1: made at 1 s, gone at 2 s and read by f2 until then; back after b3, which reads what f2 made (chain rule, one step).
// a2: gone at 3 s, read by f3 until then; the control operation of b3 is b4. So is that of b1, so that a2 stays from b3 to b1.
// a3: gone at 4 s, read by f4; for b4 there is no control operation, and at b4 itself nothing has run without it.
// a4: b4 is one level above f4, so that its edge is not rewritten.
TEST_F(Tflms, RewritesByTheChainRule) {
  const Graph graph = graph_of(kFigure4);
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1"), "f1 <a1 f2 -a1 <a2 f3 -a2 f4 b4 >a2 b3 >a1 b2 b1");
  // Two steps: b4 for both; what is read first comes first.
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=2"), "f1 <a1 f2 -a1 <a2 f3 -a2 f4 b4 >a2 >a1 b3 b2 b1");
  // Four steps behind f1 there is nothing, nor behind f2: both come at their reads.
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=4"), "f1 <a1 f2 -a1 <a2 f3 -a2 f4 b4 >a2 b3 -a2 >a1 b2 >a2 b1");
  EXPECT_EQ(plan(graph, ":n_tensors=1,lb=1"), "f1 <a1 f2 -a1 f3 f4 b4 b3 >a1 b2 b1");
  EXPECT_EQ(plan(graph, ":n_tensors=0"), "f1 f2 f3 f4 b4 b3 b2 b1");
}

// In the direct order a2 comes for b3 after b4, and again for b1 after b2.
TEST_F(Tflms, FusesReadsThatAreClose) {
  const Graph graph = graph_of(kFigure4);
  const std::string all = ":n_tensors=-1,lb=1,ctrld_strategy=direct_order";
  const std::string twice = "f1 <a1 f2 -a1 <a2 f3 -a2 f4 b4 >a2 b3 -a2 >a1 b2 >a2 b1";
  EXPECT_EQ(plan(graph, all), twice);
  EXPECT_EQ(plan(graph, all + ",fuse_swapins=true"), "f1 <a1 f2 -a1 <a2 f3 -a2 f4 b4 >a2 b3 >a1 b2 b1");
  EXPECT_EQ(plan(graph, all + ",fuse_swapins=true,fuse_distance=1"), twice);  // b1 is two levels above b3
  // Three levels before b2 is f4. Before b3 it is f3, when a2 has just left; before b1 it is b4, so that a2 would never be away.
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=3,ctrld_strategy=direct_order"), "f1 <a1 f2 -a1 f3 f4 >a1 b4 b3 b2 b1");
}

// No op waits for a copy that takes three seconds: a1 has left at 4 s, which is when f4 ends; a2 would at 7 s, after it is due.
TEST_F(Tflms, ReleasesWhatHasLeft) {
  EXPECT_EQ(plan(graph_of(kFigure4), ":n_tensors=-1,lb=1", 3), "f1 <a1 f2 f3 f4 -a1 b4 b3 >a1 b2 b1");
}

TEST_F(Tflms, TakesScopesOpsAndKinds) {
  const Graph graph = graph_of(kFigure4);
  const std::string none = "f1 f2 f3 f4 b4 b3 b2 b1", second = "f1 f2 <a2 f3 -a2 f4 b4 >a2 b3 b2 b1";
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,excl_types=relu"), none);
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,incl_types=add"), none);
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,excl_scopes=f1"), second);
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,incl_scopes=f2+f3"), second);
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,starting_op_names=f2"), second);
  EXPECT_EQ(plan(graph, ":n_tensors=1,lb=1,starting_scope=f2"), second);
  EXPECT_EQ(message_of<UserError>([&] { plan(graph, ":starting_op_names=f9"); }),
            "planner tflms: starting_op_names: chain has no op of name 'f9'");
  EXPECT_EQ(message_of<UserError>([&] { plan(graph, ":excl_types=conv2d"); }),
            "planner tflms: excl_types: chain has no op of kind 'conv2d'");
}

// f4 reads a1 three levels above f1. Its control operation, one level below, is f3; while f3 runs, a1 is away.
TEST_F(Tflms, SwapsBranches) {
  const Graph graph = graph_of(R"(graph branch
input x f32[64]
f1: a1 = relu(x)
f2: a2 = relu(a1)
f3: a3 = relu(a2)
f4: a4 = add(a3, a1)
output a4
)");
  const std::string none = "f1 f2 f3 f4";
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1"), none);
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,swap_branches=true,branch_threshold=2"), "f1 <a1 f2 -a1 f3 >a1 f4");
  EXPECT_EQ(plan(graph, ":n_tensors=-1,lb=1,swap_branches=true,branch_threshold=3"), none);
}

// While b4 runs, keep holds a1 to a4, which g3 takes over: 1024 bytes. Without a1 it is 768, as while b2 reads it beside a2 and g2.
// For 512 bytes a2 must be away then too, which it is where both come at their reads: with the fourth lb.
TEST_F(Tflms, SearchesForTheFewestThatFit) {
  const Graph graph = graph_of(kFigure4);
  EXPECT_EQ(plan(graph, "", 1, 1024), plan(graph, ":n_tensors=0"));
  EXPECT_EQ(plan(graph, "", 1, 768), plan(graph, ":n_tensors=1,lb=1"));  // the first of those that take eight seconds
  EXPECT_EQ(plan(graph, ":lb=2", 1, 768), plan(graph, ":n_tensors=1,lb=2"));
  EXPECT_EQ(plan(graph, "", 1, 512), plan(graph, ":n_tensors=2,lb=4"));
  EXPECT_NE(message_of<BudgetError>([&] { plan(graph, "", 1, 256); }).find("planner tflms needs 512 B"), std::string::npos);
  // What is given is held to, even where something else would fit.
  EXPECT_THROW(plan(graph, ":n_tensors=0", 1, 768), BudgetError);
  EXPECT_THROW(plan(graph, ":lb=1", 1, 512), BudgetError);
}

}  // namespace
}  // namespace outsize
