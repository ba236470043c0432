#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "steps.h"

namespace outsize {
namespace {

std::string names_of(const Graph& graph, const std::vector<OpId>& ops) {
  std::string names;
  for (OpId op : ops) names += (names.empty() ? "" : " ") + graph.op(op).name;
  return names;
}

// A branch is followed to where it meets the other; what leads to nothing else goes first, and backward waits for all of forward.
TEST(DepthFirst, FollowsABranchToItsEnd) {
  const Graph graph = graph_of(R"(graph branches
input x f32[64]
f1: a = relu(x)
left1: b = relu(a)
right1: c = relu(a)
left2: d = relu(b)
right2: e = relu(c)
join: f = add(d, e)
metric: m = relu(f)
b1: g = add(f, a) @backward(join)
b2: h = add(g, b) @backward(left2)
b3: i = add(g, c) @backward(right2)
output h, i, m
)");
  EXPECT_EQ(names_of(graph, depth_first_order(graph)), "f1 left1 left2 right1 right2 join metric b1 b2 b3");
}

std::string plan_of_chain(double copy, std::int64_t values) {
  const Graph graph = graph_of(kFigure4);
  const Profile seconds = second_an_op(copy);
  constexpr std::int64_t kBytes = 256;
  const Plan made = plan_tsplit({.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = values * kBytes}}).take();
  check_plan(graph, made);
  return steps_of(graph, made);
}

// f4 is the first that lacks room, with a1 to a4 there; a1 and a2 are those that it does not touch. Both copies out are hidden
// behind what has run, and none of the copies in is, since there is no room earlier; each would also take a second to make again.
// The one made first leaves.
TEST(Tsplit, EvictsWhatWasMadeFirst) {
  EXPECT_EQ(plan_of_chain(1, 4), "f1 f2 f3 f4 b4 b3 b2 b1");
  EXPECT_EQ(plan_of_chain(1, 3), "f1 <a1 f2 -a1 f3 f4 b4 >a1 b3 b2 b1");
}

// A copy of three seconds costs more than to make a1 again, for which x stays; then a2 goes the same way, of what f1 made again.
TEST(Tsplit, MakesAgainWhereTheLinkIsSlow) { EXPECT_EQ(plan_of_chain(3, 3), "f1 f2 f3 f4 b4 f1 f2 b3 b2 b1"); }

TEST(Tsplit, SaysWhatLacks) {
  const std::string message = message_of<BudgetError>([] { plan_of_chain(1, 1); });
  EXPECT_NE(message.find("planner tsplit needs "), std::string::npos) << message;
}

}  // namespace
}  // namespace outsize
