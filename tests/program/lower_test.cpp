// From a plan to offsets.
#include "program/lower.h"

#include <gtest/gtest.h>

#include "hand_program.h"

namespace outsize {
namespace {

// Each half of the result is made of one input and of nothing of the other; what is empty lies nowhere, with canaries or without.
TEST(Lower, EmptyBoxesTakeNoBytes) {
  const Graph graph = graph_of(R"(
graph halves
input a f64[1, 1, 2, 4]
input b f64[1, 1, 2, 4]
join: c = concat(a, b) axis=2
output c
)");
  const Plan plan = parse_plan(graph, "pass halves driver=c grid=[1, 1, 2, 1] ops=[join]\n", "test.plan");
  LowerOptions options{.loops = false};
  // The first half is made while a, b and c live: three pieces in 256 bytes each, and above them one that begins with a canary.
  // Each of them has 64 bytes but c, which lives longest and lies at the bottom.
  EXPECT_EQ(lower(graph, plan, options).take().peak_bytes.device, 3 * 256 + 64);
  options.canary_bytes = 256;
  const Program program = lower(graph, plan, options).take();
  EXPECT_EQ(program.peak_bytes.device, 3 * (256 + 256 + 256) + 256 + 64);
  EXPECT_EQ(program.live_bytes, 4 * (256 + 256 + 256));
}

}  // namespace
}  // namespace outsize
