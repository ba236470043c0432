#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "plan/planner.h"
#include "steps.h"

namespace outsize {
namespace {

// Ops take a second and copies three. a1 leaves in seconds 1 to 4 and a2 in 4 to 7; beside f6 is no room for either, so that it
// waits until second 7. Until then there is time to spare: f3, f4 and f5 run in seconds 2 to 5, and might in 4 to 7.
constexpr std::string_view kTurn = R"(graph turn
input x f32[64]
f1: a1 = relu(x)
f2: a2 = relu(a1)
f3: a3 = relu(a2)
f4: a4 = relu(a3)
f5: a5 = relu(a4)
f6: a6 = relu(a5)
b5: g5 = relu(a6) @backward(f5)
b4: g4 = relu(g5) @backward(f4)
b3: g3 = relu(g4) @backward(f3)
b2: g2 = add(g3, a2) @backward(f2)
b1: g1 = add(g2, a1) @backward(f1)
output g1
)";

// What makes room leaves as soon as the first run begins that would not wait for it, and comes back as late in the mirror: told
// from the end, b1 and b2 read a1 and a2 in seconds 0 and 1, whose copies take 1 to 4 and 4 to 7.
TEST(Linger, LessOfItIsLeavingEarlierAndComingBackLater) {
  const Graph graph = graph_of(kTurn);
  const Profile seconds = second_an_op(3);
  PlanRequest request{.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = 1 << 20}};
  request.gaps_at.assign(11, 0);
  request.gaps_at[5] = 1 << 20;  // f6
  const auto made = [&](double linger) {
    request.linger = linger;
    return steps_of(graph, find_planner("vdnn-all").make(request).take());
  };
  // f5 begins in second 4, when a1 is gone.
  EXPECT_EQ(made(1), "f1 <a1 f2 <a2 f3 f4 -a1 f5 -a2 f6 >a2 b5 >a1 b4 b3 b2 b1");
  // Half of the time to spare, f3 begins in second 3 and f4 in second 4.
  EXPECT_EQ(made(0.5), "f1 <a1 f2 <a2 f3 -a1 f4 f5 -a2 f6 >a2 b5 b4 >a1 b3 b2 b1");
  // All of it, f3 begins in second 4.
  EXPECT_EQ(made(0), "f1 <a1 f2 -a1 <a2 f3 f4 f5 -a2 f6 >a2 b5 b4 b3 >a1 b2 b1");
}

// Where nothing waits there is no time to spare.
TEST(Linger, ChangesNothingWhereNoRunWaits) {
  const Graph graph = graph_of(kTurn);
  const Profile seconds = second_an_op(1);
  PlanRequest request{.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = 1 << 20}};
  const auto made = [&](double linger) {
    request.linger = linger;
    return steps_of(graph, find_planner("vdnn-all").make(request).take());
  };
  EXPECT_EQ(made(0), made(1));
}

}  // namespace
}  // namespace outsize
