#include "graph/text.h"

#include "graph/autodiff.h"
#include "graph/verify.h"
#include "graph_test_support.h"

namespace outsize {
namespace {

// As a person would write it: no types after the ops, results named at will, comments and odd blanks.
constexpr std::string_view kTiny = R"(graph tiny      # two layers
input  x       f32[2, 3, 8, 8]
input labels i32[2]

param conv1.weight f32[4,3,3,3] init=normal:0.1
param	fc.weight f32[5, 64] init=uniform:0.125
param fc.bias f32[5]
conv1: y = conv2d(x, conv1.weight) padding=[1, 1, 1, 1]
relu1:h=relu( y )
pool: p = max_pool(h)
flat: f = reshape(p) shape=[2, -1]
fc: z = linear(f, fc.weight, fc.bias)
loss: loss = softmax_cross_entropy(z, labels)
output loss
)";

constexpr std::string_view kTinyPrinted = R"(graph tiny
input x f32[2, 3, 8, 8]
input labels i32[2]
param conv1.weight f32[4, 3, 3, 3] init=normal:0.1
param fc.weight f32[5, 64] init=uniform:0.125
param fc.bias f32[5] init=zeros
conv1: y = conv2d(x, conv1.weight) padding=[1, 1, 1, 1] : f32[2, 4, 8, 8]
relu1: h = relu(y) : f32[2, 4, 8, 8]
pool: p, pool.argmax = max_pool(h) : f32[2, 4, 4, 4], u8[2, 4, 4, 4]
flat: f = reshape(p) shape=[2, -1] : f32[2, 64]
fc: z = linear(f, fc.weight, fc.bias) : f32[2, 5]
loss: loss = softmax_cross_entropy(z, labels) : f32[1]
output loss
)";

TEST(GraphText, HandWrittenGraphIsPrintedInFull) { EXPECT_EQ(print_graph(graph_of(kTiny)), kTinyPrinted); }

TEST(GraphText, PrintedGraphReadsBackTheSame) { EXPECT_EQ(print_graph(graph_of(kTinyPrinted)), kTinyPrinted); }

TEST(GraphText, ReadsRolesTypesAndInits) {
  const Graph graph = graph_of(R"(
input a f32[1, 2, 3, 4]
input b f32.plain[1, 2, 3, 4]
input p f32.planar[1, 2, 3, 4]
input c f64[3]
param w f32[1, 2, 3, 4] init=ones
param m f32.map[1, 2, 3, 4] init=normal:1e-05
state s f32[3] init=uniform:2
output a, c
)");
  EXPECT_EQ(graph.name, "graph");
  const auto type_of = [&](std::string_view name) { return graph.value(graph.find_value(name)).type; };
  EXPECT_EQ(type_of("a"), (ValueType{DType::f32, {1, 2, 3, 4}, Format::map}));
  EXPECT_EQ(type_of("b"), (ValueType{DType::f32, {1, 2, 3, 4}, Format::plain}));
  EXPECT_EQ(type_of("p"), (ValueType{DType::f32, {1, 2, 3, 4}, Format::planar}));
  EXPECT_EQ(type_of("c"), (ValueType{DType::f64, {3}, Format::plain}));
  EXPECT_EQ(type_of("w").format, Format::plain);
  EXPECT_EQ(type_of("m").format, Format::map);
  EXPECT_EQ(graph.value(graph.find_value("w")).role, Role::parameter);
  EXPECT_EQ(graph.value(graph.find_value("s")).role, Role::state);
  EXPECT_EQ(graph.value(graph.find_value("w")).init, (Init{Init::Kind::ones, 0}));
  EXPECT_EQ(graph.value(graph.find_value("m")).init, (Init{Init::Kind::normal, 1e-5}));
  EXPECT_EQ(graph.value(graph.find_value("s")).init, (Init{Init::Kind::uniform, 2}));
  EXPECT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(print_graph(graph_of(print_graph(graph))), print_graph(graph));
}

// Everything autodiff adds must survive: seeds, partial gradients, the op a gradient belongs to, updates and versions.
TEST(GraphText, DifferentiatedGraphWithUpdatesReadsBackTheSame) {
  Graph graph = graph_of(R"(graph net
input x f32[2, 3, 8, 8]
input t f32[2, 4, 8, 8]
input lr f32[1]
param w f32[4, 3, 3, 3] init=normal:0.1
param v f32[4, 4, 1, 1] init=normal:0.1
param gamma f32[4] init=ones
param beta f32[4]
state mean f32[4]
state var f32[4] init=ones
state w.buffer f32[4, 3, 3, 3]
c1: a = conv2d(x, w) padding=[1, 1, 1, 1]
bn.stats: stats = batch_norm_stats(a)
bn.final: moments = batch_norm_finalize(stats) eps=0.001
bn.update: mean2, var2 = batch_norm_update(mean, var, stats)
bn: b = batch_norm_apply(a, moments, gamma, beta)
c2: c = conv2d(b, v)
join: d = add(c, b)
loss: loss = mean_squared_error(d, t)
output loss
)");
  const AutodiffResult result = differentiate(graph, {{graph.find_value("loss")}, {graph.find_value("x")}});
  for (const auto& [value, gradient] : result.gradients) {
    const std::string& name = graph.value(value).name;
    if (name == "w")
      graph.add_op("step.w", *find_op_def("sgd"), {value, gradient, graph.find_value("lr"), graph.find_value("w.buffer")},
                   {{"momentum", 0.9}});
    else if (name != "x")
      graph.add_op("step." + name, *find_op_def("sgd"), {value, gradient, graph.find_value("lr")});
  }
  verify_graph(graph);
  const std::string text = print_graph(graph);
  const Graph again = graph_of(text);
  verify_graph(again);
  EXPECT_EQ(print_graph(again), text);

  ASSERT_EQ(again.value_count(), graph.value_count());
  ASSERT_EQ(again.op_count(), graph.op_count());
  for (std::int64_t i = 0; i < graph.value_count(); ++i) {
    const Value& a = graph.value(ValueId(i));
    const Value& b = again.value(ValueId(i));
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.role, b.role) << a.name;
    EXPECT_EQ(a.gradient_of, b.gradient_of) << a.name;
    EXPECT_EQ(a.partial, b.partial) << a.name;
    EXPECT_EQ(a.version_of, b.version_of) << a.name;
    EXPECT_EQ(a.consumers, b.consumers) << a.name;
  }
  for (std::int64_t i = 0; i < graph.op_count(); ++i) {
    EXPECT_EQ(graph.op(OpId(i)).phase, again.op(OpId(i)).phase);
    EXPECT_EQ(graph.op(OpId(i)).forward, again.op(OpId(i)).forward);
    EXPECT_EQ(graph.op(OpId(i)).attributes, again.op(OpId(i)).attributes);
  }
  EXPECT_EQ(graph.value(graph.find_value("mean2")).version_of, graph.find_value("mean"));
  EXPECT_EQ(graph.value(graph.find_value("w.buffer.next")).version_of, graph.find_value("w.buffer"));
  EXPECT_EQ(graph.value(graph.find_value("w.next")).role, Role::parameter);
}

// What a text may say, but hardly a person who wants to train it.
TEST(GraphText, ANetworkTrainsAllItsParameters) {
  register_ops();
  const std::string tiny(kTiny);
  EXPECT_EQ(print_graph(parse_network(tiny, "tiny.graph")), kTinyPrinted);
  const auto refusal = [](const std::string& text) {
    EXPECT_NO_THROW(parse_graph(text, "tiny.graph"));
    return message_of<UserError>([&] { parse_network(text, "tiny.graph"); });
  };
  EXPECT_EQ(refusal(tiny + "param extra f32[5]\n"),
            "tiny.graph:15: param 'extra': no op reads it, so that it would never be trained; use it, or remove the line");
  EXPECT_EQ(refusal(tiny + "param extra f32[2, 5]\nmore: more = add(z, extra)\nbranch: branch = relu(more)\n"),
            "tiny.graph:15: param 'extra': no output depends on it, so that it would never be trained; use it, or remove the line");
}

struct BadText {
  std::string_view text;
  std::string_view message;
};

class GraphTextErrors : public testing::TestWithParam<BadText> {};

TEST_P(GraphTextErrors, SayWhereAndWhat) {
  // Line 1 of every text is empty, so the first line of substance is line 2.
  EXPECT_EQ(message_of<UserError>([] { graph_of(GetParam().text); }), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, GraphTextErrors,
    testing::Values(
        BadText{R"(
input x f32[1, 3, 8, 8]
param w f32[4, 3, 3, 3]
c: y = conv2(x, w)
)",
                "test.graph:4: op c: unknown op kind 'conv2'; did you mean 'conv2d'?"},
        BadText{"\nc: y = teleport()\n", "test.graph:2: op c: unknown op kind 'teleport'; 'outsize ops' lists them"},
        BadText{R"(
input picture f32[1, 3, 8, 8]
r: y = relu(pictures)
)",
                "test.graph:3: op r (relu): unknown value 'pictures'; did you mean 'picture'?"},
        BadText{"\ninput x f32[2]\ninput x f32[2]\n", "test.graph:3: value 'x' is defined twice"},
        BadText{"\ninput x f32[2]\nr: x = relu(x)\n", "test.graph:3: op r (relu): value 'x' is defined twice"},
        BadText{"\ninput x f32[2]\nr: y = relu(x)\nr: z = relu(y)\n", "test.graph:4: op 'r' is defined twice"},
        BadText{R"(
input x f32[1, 3, 8, 8]
param w f32[4, 3, 3, 3]
c: y = conv2d(x, w) strides=[2, 2]
)",
                "test.graph:4: op c (conv2d): unknown attribute 'strides'; did you mean 'stride'?"},
        BadText{"\ninput x f32[2]\nr: y = relu(x) slope=1\n",
                "test.graph:3: op r (relu): unknown attribute 'slope'; relu takes none"},
        BadText{R"(
input x f32[1, 3, 8, 8]
param w f32[4, 3, 3, 3]
c: y = conv2d(x, w) stride=2
)",
                "test.graph:4: op c (conv2d): attribute stride: expected a list of integers such as [1, 1], found 2"},
        BadText{R"(
input x f32[1, 3, 8, 8]
param w f32[4, 3, 3, 3]
c: y = conv2d(x, w) stride=[2, 2] stride=[1, 1]
)",
                "test.graph:4: op c (conv2d): attribute 'stride' is given twice"},
        BadText{R"(
input x f32[1, 5, 8, 8]
param w f32[4, 3, 3, 3]
c: y = conv2d(x, w)
)",
                "test.graph:4: op c (conv2d): input weight must be f32.plain[4, 5, 3, 3] (x's dtype and channels), found "
                "f32.plain[4, 3, 3, 3]"},
        BadText{"\ninput x f32[2]\nr: y = relu()\n", "test.graph:3: op r (relu): expected 1 input (x), found 0"},
        BadText{"\ninput x f32[2]\nr: y = conv2d(x)\n",
                "test.graph:3: op r (conv2d): expected 2 or 3 inputs (x, weight, bias?), found 1"},
        BadText{"\ninput x f32[2]\nr: y = concat()\n", "test.graph:3: op r (concat): expected 1 or more inputs (x*), found 0"},
        BadText{"\ninput x f32[2]\nr: y, z = relu(x)\n", "test.graph:3: op r (relu): has 1 result, but 2 are named"},
        BadText{"\ninput x f32[2]\nr: y = relu(x) : f32[3]\noutput y\n",
                "test.graph:3: op r (relu): 'y' is f32[2], but the text says f32[3]"},
        BadText{"", "test.graph: is empty; expected a graph"},
        BadText{"\ninput x f32[2]\n", "test.graph:2: the graph has no output; add a line such as 'output loss'"},
        BadText{"\ninput x f32[2]\noutput y\n",
                "test.graph:3: output: unknown value 'y'; a value must be declared before it is read"},
        BadText{"\ninput x f16[2]\n", "test.graph:2: unknown type 'f16'; expected f32, f64, i32 or u8"},
        BadText{"\ninput x f32[2, 0]\n", "test.graph:2: value x: every extent must be at least 1, found f32[2, 0]"},
        BadText{"\ninput x f32[4294967296, 4294967296]\n",
                "test.graph:2: value x: f32[4294967296, 4294967296] has more elements than can be addressed"},
        BadText{"\ninput x f32[2000000000]\n", "test.graph:2: value x: no extent may be above 1073741824, found f32[2000000000]"},
        BadText{"\ninput x f32[1000000000, 1000000000]\n",
                "test.graph:2: value x: f32[1000000000, 1000000000] has more elements than can be addressed"},
        // Each would overflow 64 bits on the way to the result's shape.
        BadText{"\ninput x f32[2, 3, 8, 8]\nparam w f32[4, 3, 3, 3]\nc: y = conv2d(x, w) dilation=[1, 9223372036854775807]\n",
                "test.graph:4: op c (conv2d): attribute dilation: 9223372036854775807 is beyond 1073741824, the largest extent"},
        BadText{"\ninput x f32[2, 3, 8, 8]\np: y = max_pool(x) padding=[0, 0, 0, 9223372036854775807]\n",
                "test.graph:3: op p (max_pool): attribute padding: 9223372036854775807 is beyond 1073741824, the largest extent"},
        BadText{"\ninput x f32[2]\np: y = pad(x) before=[1] after=[-9223372036854775808]\n",
                "test.graph:3: op p (pad): attribute after: -9223372036854775808 is beyond 1073741824, the largest extent"},
        BadText{"\ninput x f32[2, 3]\nr: y = reshape(x) shape=[1000000000, 1000000000, 1000000000]\n",
                "test.graph:3: op r (reshape): shape [1000000000, 1000000000, 1000000000] must hold the 6 elements of f32[2, 3]"},
        BadText{"\ninput x f32[1, 2, 3, 4, 5, 6, 7]\n", "test.graph:2: expected at most 6 dimensions, found 7"},
        BadText{"\ninput x f32.map[2]\n", "test.graph:2: value x: a map has 4 or 5 dimensions (N C D? H W), found f32.map[2]"},
        BadText{"\nparam w f32[2] init=normal\n",
                "test.graph:2: expected ':' and a number after init=normal, found the end of the line"},
        BadText{"\nparam w f32[2] init=xavier\n",
                "test.graph:2: unknown init 'xavier'; expected zeros, ones, sinusoid, constant:NUMBER, normal:STD or "
                "uniform:HALFWIDTH"},
        BadText{"\nparam w f32[2] fill=ones\n", "test.graph:2: expected init=…, found 'fill'"},
        BadText{"\nweights w f32[2]\n",
                "test.graph:2: expected graph, input, param, state, output or 'OP: RESULT = KIND(…)', found 'weights'"},
        BadText{"\ninput x f32[2] f32\n", "test.graph:2: expected the end of the line, found 'f32'"},
        BadText{"\ninput x f32[2]\nr: y = relu(x\n", "test.graph:3: expected ')' after the inputs, found the end of the line"},
        BadText{"\ninput x f32[2]\nr: y = relu(x) @update\n", "test.graph:3: op r (relu): is no update; relu replaces nothing"},
        BadText{"\ninput x f32[2]\ninput g f32[2]\ninput lr f32[1]\ns: y = sgd(x, g, lr)\n",
                "test.graph:5: op s (sgd): input 0 must be a parameter or state, because the op replaces it; found input 'x'"},
        BadText{"\ninput x f32[2]\nr: y = relu(x) @backward(q)\n", "test.graph:3: op r (relu): unknown op 'q' in @backward"}));

}  // namespace
}  // namespace outsize
