#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "plan/planner.h"
#include "steps.h"

namespace outsize {
namespace {

// Forward reads a1, m1 and m2 long before backward does. Of these m1 alone goes into a convolution; the parameter that is added to
// a1 has as many dimensions as a1, as a convolution's weight has.
TEST(Vdnn, ConvTakesInputsOfConvolutionsAlone) {
  const Graph graph = graph_of(R"(graph positions
input tokens f32[2, 4, 8]
input x f32[1, 8, 4, 4]
param position f32[1, 4, 8]
param weight f32[8, 8, 1, 1]
f1: a1 = relu(tokens)
f2: a2 = add(a1, position)
c1: m1 = relu(x)
c2: m2 = conv2d(m1, weight)
f3: a3 = relu(a2)
b3: g3 = add(a3, a2) @backward(f3)
bc: gm = add(m2, m1) @backward(c2)
b2: g2 = add(g3, a1) @backward(f2)
output g2
output gm
)");
  const Profile seconds = second_an_op(1);
  const auto leaving = [&](std::string_view planner) {
    const Plan made = find_planner(planner).make({.graph = graph, .profile = seconds, .storage = {}}).take();
    check_plan(graph, made);
    std::vector<std::string> names;
    for (const Step& step : made.steps)
      if (const auto* out = std::get_if<OutStep>(&step)) names.push_back(graph.value(out->value).name);
    return names;
  };
  EXPECT_EQ(leaving("vdnn-all"), (std::vector<std::string>{"a1", "m1", "m2"}));
  EXPECT_EQ(leaving("vdnn-conv"), std::vector<std::string>{"m1"});
}

}  // namespace
}  // namespace outsize
