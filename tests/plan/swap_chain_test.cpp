#include "plan/swap/swap_chain.h"

#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "steps.h"

namespace outsize {
namespace {

// Values of 256 bytes. On the device during the runs, in values: 2 3 4 5 (x and a1 … a4), then 5 4 3 2: a sum takes the place of a
// value that ends with it.
constexpr std::string_view kChain = R"(graph chain
input x f32[64]
f1: a1 = relu(x)
f2: a2 = relu(a1)
f3: a3 = relu(a2)
f4: a4 = relu(a3)
b4: g3 = add(a4, a3) @backward(f4)
b3: g2 = add(g3, a2) @backward(f3)
b2: g1 = add(g2, a1) @backward(f2)
b1: g0 = add(g1, x) @backward(f1)
output g0
)";

std::vector<std::int64_t> bytes(std::vector<std::int64_t> values) {
  for (std::int64_t& value : values) value *= 256;
  return values;
}

std::string plan(const Graph& graph, std::string_view planner, std::int64_t values, double copy) {
  const Profile profile = second_an_op(copy);
  const Plan made =
      find_planner(planner).make({.graph = graph, .profile = profile, .storage = {}, .budgets = {.device = values * 256}}).take();
  check_plan(graph, made);
  return steps_of(graph, made);
}

// x, a1 and a2 wait between forward and backward; nothing runs between f4 and b4, the readers of a3 and a4.
TEST(SwapChain, HasALayerForEachValueThatWaits) {
  const Graph graph = graph_of(kChain);
  const Profile profile = second_an_op(1);
  const SwapChain of = swap_chain_of({.graph = graph, .profile = profile, .storage = {}});
  check_chain(of.chain);
  EXPECT_EQ(of.chain.x, bytes({1, 1, 1, 0}));
  EXPECT_EQ(of.chain.y, bytes({0, 0, 0, 0}));
  EXPECT_EQ(of.chain.forward, (std::vector<double>{1, 1, 2}));   // f1; f2; f3 and f4
  EXPECT_EQ(of.chain.backward, (std::vector<double>{1, 1, 2}));  // b1; b2; b4 and b3, which reads a2
  EXPECT_EQ(of.chain.forward_extra, bytes({0, 0, 2}));           // a3 and a4
  EXPECT_EQ(of.chain.backward_extra, bytes({0, 0, 2}));          // a3 and a4, in whose place g3 is
  EXPECT_EQ(peak_bytes(of.chain), 5 * 256);
  ASSERT_EQ(of.swaps.size(), 3U);
  for (std::int32_t i = 0; i < 3; ++i) {
    const std::vector<Swap>& swaps = of.swaps[static_cast<std::size_t>(i)];
    ASSERT_EQ(swaps.size(), 1U);
    EXPECT_EQ(swaps[0].after, i);
    EXPECT_EQ(swaps[0].before, 7 - i);
  }
}

// A skip connection: a1 is read again by f4, so that it may leave after a2, but comes back after it; labels leave last.
TEST(SwapChain, StandsInTheOrderOfBackward) {
  const Graph graph = graph_of(R"(graph skip
input x f32[64]
input labels f32[64]
f1: a1 = relu(x)
f2: a2 = relu(a1)
f3: a3 = relu(a2)
f4: a4 = add(a3, a1)
f5: a5 = add(a4, labels)
f6: a6 = relu(a5)
b6: g5 = relu(a6) @backward(f6)
b5: g4 = add(g5, labels) @backward(f5)
b3: g2 = add(g4, a2) @backward(f3)
b2: g1 = add(g2, a1) @backward(f2)
b1: g0 = add(g1, x) @backward(f1)
output g0
)");
  const Profile profile = second_an_op(1);
  const SwapChain of = swap_chain_of({.graph = graph, .profile = profile, .storage = {}});
  std::vector<std::string> order;
  for (const std::vector<Swap>& swaps : of.swaps)
    for (const Swap& swap : swaps) order.push_back(graph.value(of.lives.all[swap.life].value).name);
  EXPECT_EQ(order, (std::vector<std::string>{"x", "a1", "a2", "labels"}));
}

// One value is too much; a copy takes two ops, and has its time.
TEST(SwapChain, CopiesGoBesideTheRuns) { EXPECT_EQ(plan(graph_of(kChain), "greedy", 4, 2), "<x f1 f2 -x f3 f4 b4 >x b3 b2 b1"); }

// Two values are too much; a copy takes four ops. x is gone at 4 s and f3 waits for that; a1 is gone at 8 s and f4 waits for that.
// Had f3 waited for a1, f3 would begin at 8 s. Backward is the same from its end.
TEST(SwapChain, RunsWaitForTheFirstCopyThatMakesRoom) {
  EXPECT_EQ(plan(graph_of(kChain), "greedy", 3, 4), "<x f1 <a1 f2 -x f3 -a1 f4 b4 >a1 b3 >x b2 b1");
}

// f3 is run again for b3: it reads a2, which may be away until then. What it makes again is there for backward alone.
TEST(SwapChain, WhatIsRunAgainReadsInBackward) {
  const Graph graph = graph_of(kChain);
  const Profile profile = second_an_op(1);
  const PlanRequest request{.graph = graph, .profile = profile, .storage = {}};
  Runs runs;
  for (const char* name : {"f1", "f2", "f3", "f4", "b4", "f3", "b3", "b2", "b1"})
    for (std::int64_t k = 0; k < graph.op_count(); ++k)
      if (graph.op(OpId(k)).name == name) runs.emplace_back(k);
  const Lives lives = lives_of(request, costs_of(request), runs);
  EXPECT_EQ(lives.backward, 4);
  for (std::int64_t k = 0; k < lives.all.size(); ++k) {
    const Life& life = lives.all[k];
    const std::optional<Swap> gap = gap_of(lives, static_cast<std::int32_t>(k));
    if (graph.value(life.value).name == "a2") {
      ASSERT_TRUE(gap.has_value());
      EXPECT_EQ(gap->after, 2);
      EXPECT_EQ(gap->before, 5);
    }
    if (graph.value(life.value).name == "a3") {
      EXPECT_FALSE(gap.has_value());
    }
  }
}

}  // namespace
}  // namespace outsize
