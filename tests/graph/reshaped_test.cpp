#include "graph/reshaped.h"

#include "graph/text.h"
#include "graph_test_support.h"

namespace outsize {
namespace {

const std::string kMaps = R"(graph maps
input x f32[4, 3, 8, 6]
input labels i32[4, 8, 6]
param w f32[2, 3, 3, 3] init=normal:0.1
conv: y = conv2d(x, w) padding=[1, 1, 1, 1]
loss: loss = softmax_cross_entropy(y, labels)
output loss
)";

TEST(Reshaped, LabelsOfPositionsFollow) {
  register_ops();
  const Graph graph = reshaped(parse_graph(kMaps, "maps"), {1, 3, 10, 12});
  EXPECT_EQ(graph.value(graph.find_value("labels")).type.shape, (Dims{1, 10, 12}));
  EXPECT_EQ(graph.value(graph.find_value("y")).type.shape, (Dims{1, 2, 10, 12}));
  EXPECT_EQ(graph.value(graph.find_value("w")).init, (Init{Init::Kind::normal, 0.1}));
  EXPECT_EQ(graph.outputs(), std::vector{graph.find_value("loss")});
  // And back again: nothing is lost on the way.
  EXPECT_EQ(print_graph(reshaped(graph, {4, 3, 8, 6})), print_graph(parse_graph(kMaps, "maps")));
}

TEST(Reshaped, FixedExtentsAreRefused) {
  register_ops();
  const Graph graph = parse_graph(R"(graph fixed
input x f32[4, 6]
input labels i32[4]
param w f32[5, 6] init=normal:0.1
same: f = reshape(x) shape=[4, 6]
linear: y = linear(f, w)
loss: loss = softmax_cross_entropy(y, labels)
output loss
)",
                                  "fixed");
  EXPECT_THROW(reshaped(graph, {3, 6}), UserError);
}

}  // namespace
}  // namespace outsize
