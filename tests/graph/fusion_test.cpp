#include "graph/fusion.h"

#include "graph/verify.h"
#include "graph_test_support.h"

namespace outsize {
namespace {

// The ops of the fused graph, as text, without the lines of inputs and parameters.
std::string fused_ops(std::string_view text) {
  const Graph fused = fuse(graph_of(text));
  verify_graph(fused);
  std::string ops;
  std::string_view rest;
  const std::string printed = print_graph(fused);
  rest = printed;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    if (line.find(" = ") != std::string_view::npos || line.starts_with("output")) ops += line;
    rest.remove_prefix(line.size());
  }
  return ops;
}

TEST(Fusion, ConvolutionTakesItsRelu) {
  EXPECT_EQ(fused_ops(R"(
input x f32[1, 3, 8, 8]
param w f32[4, 3, 3, 3]
c: a = conv2d(x, w) stride=[2, 2]
r: b = relu(a)
d: e = add(b, b)
output e
)"),
            R"(c: b = conv2d(x, w) stride=[2, 2] activation=relu : f32[1, 4, 3, 3]
d: e = add(b, b) : f32[1, 4, 3, 3]
output e
)");
}

TEST(Fusion, ReluBeforePoolingGoesToThePooling) {
  EXPECT_EQ(fused_ops(R"(
input x f32[1, 3, 8, 8]
param w f32[4, 3, 3, 3]
c: a = conv2d(x, w) padding=[1, 1, 1, 1]
r: b = relu(a)
p: y, where = max_pool(b)
output y
)"),
            R"(c: a = conv2d(x, w) padding=[1, 1, 1, 1] : f32[1, 4, 8, 8]
r: y, where = max_pool(a) activation=relu : f32[1, 4, 4, 4], u8[1, 4, 4, 4]
output y
)");
}

TEST(Fusion, ValueReadElsewhereStays) {
  // a is read twice, so neither reader may swallow its producer.
  constexpr std::string_view kTwice = R"(
input x f32[1, 3, 8, 8]
param w f32[3, 3, 1, 1]
c: a = conv2d(x, w)
r: b = relu(a)
s: y = add(a, b)
output y
)";
  EXPECT_EQ(print_graph(fuse(graph_of(kTwice))), print_graph(graph_of(kTwice)));
  // a can be read after the step.
  constexpr std::string_view kOutput = R"(
input x f32[1, 3, 8, 8]
param w f32[3, 3, 1, 1]
c: a = conv2d(x, w)
r: b = relu(a)
output a
output b
)";
  EXPECT_EQ(print_graph(fuse(graph_of(kOutput))), print_graph(graph_of(kOutput)));
}

// A residual block's end: norm, shortcut and relu become one op, in two scans. The shortcut's own norm stays: it is the residual.
TEST(Fusion, NormTakesShortcutAndRelu) {
  EXPECT_EQ(fused_ops(R"(
input x f32[2, 4, 6, 6]
input moments f64[2, 4]
input short f32[2, 4, 6, 6]
param g f32[4]
param b f32[4]
bn: n = batch_norm_apply(x, moments, g, b)
down: m = batch_norm_apply(short, moments, g, b)
join: s = add(m, n)
out: y = relu(s)
output y
)"),
            R"(bn: n = batch_norm_apply(x, moments, g, b) : f32[2, 4, 6, 6]
down: y = batch_norm_apply(short, moments, g, b, n) activation=relu : f32[2, 4, 6, 6]
output y
)");
}

TEST(Fusion, KeepsUpdatesStatesAndInits) {
  const Graph fused = fuse(graph_of(R"(graph bn
input x f32[2, 4, 6, 6]
param g f32[4] init=ones
param b f32[4]
state m f32[4]
state v f32[4] init=ones
stats: s = batch_norm_stats(x)
final: mo = batch_norm_finalize(s)
up: m2, v2 = batch_norm_update(m, v, s) momentum=0.2
bn: n = batch_norm_apply(x, mo, g, b)
r: y = relu(n)
output y
)"));
  verify_graph(fused);
  EXPECT_EQ(print_graph(fused), R"(graph bn
input x f32[2, 4, 6, 6]
param g f32[4] init=ones
param b f32[4] init=zeros
state m f32[4] init=zeros
state v f32[4] init=ones
stats: s = batch_norm_stats(x) : f64[3, 4]
final: mo = batch_norm_finalize(s) : f64[2, 4]
up: m2, v2 = batch_norm_update(m, v, s) momentum=0.2 : f32[4], f32[4] @update
bn: y = batch_norm_apply(x, mo, g, b) activation=relu : f32[2, 4, 6, 6]
output y
)");
  EXPECT_EQ(fused.value(fused.find_value("m2")).version_of, fused.find_value("m"));
}

}  // namespace
}  // namespace outsize
