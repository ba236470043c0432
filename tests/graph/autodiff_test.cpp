#include "graph/autodiff.h"

#include "graph/opdef.h"
#include "graph/verify.h"
#include "graph_test_support.h"

namespace outsize {
namespace {

// The lines that differentiate() appended, worked out by hand below.
std::string appended(const Graph& graph, std::string_view forward) {
  const std::string all = print_graph(graph);
  const std::string before = print_graph(graph_of(forward));
  const std::size_t head = before.find("output ");
  return all.substr(head, all.find("\noutput ") + 1 - head);
}

// b is read twice (by c2 and by the join) and w twice (tied), so each gets a sum.
constexpr std::string_view kShared = R"(graph shared
input x f32[1, 2, 4, 4]
input t f32[1, 2, 4, 4]
param w f32[2, 2, 3, 3]
c1: a = conv2d(x, w) padding=[1, 1, 1, 1]
r: b = relu(a)
c2: c = conv2d(b, w) padding=[1, 1, 1, 1]
join: d = add(c, b)
loss: loss = mean_squared_error(d, t)
output loss
)";

TEST(Autodiff, ReverseOrderSumsAndPassesOn) {
  Graph graph = graph_of(kShared);
  const AutodiffResult result = differentiate(graph, {{graph.find_value("loss")}, {}});
  verify_graph(graph);
  // join hands loss.grad on to c and b: it is the gradient of d, and no part of b's although it is summed into it. The sum of b's
  // is what r lets through of it already, so that r has nothing to do.
  EXPECT_EQ(appended(graph, kShared), R"(input grad.loss f32[1] @gradient(loss)
loss.grad: loss.grad = mean_squared_error_grad(d, t, grad.loss) : f32[1, 2, 4, 4] @backward(loss) @gradient(d)
c2.grad_data: c2.grad_data = conv2d_grad_data(loss.grad, w) padding=[1, 1, 1, 1] input=[4, 4] : f32[1, 2, 4, 4] @backward(c2) @gradient(b+)
grad.b.sum: grad.b.sum = relu_grad(loss.grad, b, c2.grad_data) : f32[1, 2, 4, 4] @backward(c2) @gradient(b)
c2.grad_weight: c2.grad_weight = conv2d_grad_weight(loss.grad, b) padding=[1, 1, 1, 1] kernel=[3, 3] : f32.plain[2, 2, 3, 3] @backward(c2) @gradient(w+)
c1.grad_weight: c1.grad_weight = conv2d_grad_weight(grad.b.sum, x) padding=[1, 1, 1, 1] kernel=[3, 3] : f32.plain[2, 2, 3, 3] @backward(c1) @gradient(w+)
grad.w.sum: grad.w.sum = add(c2.grad_weight, c1.grad_weight) : f32.plain[2, 2, 3, 3] @backward(c1) @gradient(w)
)");
  EXPECT_EQ(result.seeds, std::vector{graph.find_value("grad.loss")});
  const std::vector<std::pair<ValueId, ValueId>> expected{{graph.find_value("w"), graph.find_value("grad.w.sum")}};
  EXPECT_EQ(result.gradients, expected);
  EXPECT_EQ(graph.value(graph.find_value("grad.b.sum")).role, Role::gradient);
  EXPECT_EQ(graph.value(graph.find_value("grad.loss")).role, Role::input);
}

TEST(Autodiff, GradientOfAnInputOnRequest) {
  Graph graph = graph_of(kShared);
  const AutodiffResult result = differentiate(graph, {{graph.find_value("d")}, {graph.find_value("x")}});
  verify_graph(graph);
  // The seed is d's gradient; the loss is left out of it.
  EXPECT_EQ(graph.value(result.seeds[0]).name, "grad.d");
  EXPECT_FALSE(graph.find_op("loss.grad"));
  ASSERT_EQ(result.gradients.size(), 2u);
  EXPECT_EQ(graph.value(result.gradients[0].first).name, "x");
  EXPECT_EQ(graph.value(result.gradients[0].second).name, "c1.grad_data");
  EXPECT_EQ(graph.value(result.gradients[1].second).name, "grad.w.sum");
}

// "kind(inputs)" of an op.
std::string call(const Graph& graph, std::string_view op) {
  const OpId id = graph.find_op(op);
  if (!id) return "none";
  std::string inputs;
  for (ValueId input : graph.op(id).inputs) inputs += (inputs.empty() ? "" : ", ") + graph.value(input).name;
  return fmt::format("{}({})", graph.op(id).def->kind(), inputs);
}

Graph differentiated(std::string_view text, std::vector<std::string_view> with_respect = {}) {
  Graph graph = graph_of(text);
  std::vector<ValueId> asked;
  for (std::string_view name : with_respect) asked.push_back(graph.find_value(name));
  differentiate(graph, {{graph.find_value("loss")}, asked});
  verify_graph(graph);
  return graph;
}

// Of several sums only the last, which makes the gradient complete, does the relu's part; both operands of the add before the relu
// then take it as it is.
TEST(Autodiff, LastSumIsTheGradientOfTheRelu) {
  const Graph graph = differentiated(R"(
input x f32[1, 2, 4, 4]
input t f32[1, 2, 4, 4]
param w f32[2, 2, 3, 3]
param v f32[2, 2, 3, 3]
c1: a = conv2d(x, w) padding=[1, 1, 1, 1]
c2: s = conv2d(x, v) padding=[1, 1, 1, 1]
before: q = add(a, s)
r: b = relu(q)
first: f = tanh(b)
second: g = sigmoid(b)
join: h = add(f, g)
join2: d = add(h, b)
loss: loss = mean_squared_error(d, t)
output loss
)");
  EXPECT_EQ(call(graph, "grad.b.sum"), "add(loss.grad, second.grad)");
  EXPECT_EQ(call(graph, "grad.b.sum.1"), "relu_grad(grad.b.sum, b, first.grad)");
  EXPECT_EQ(call(graph, "r.grad"), "none");
  EXPECT_EQ(call(graph, "c1.grad_weight"), "conv2d_grad_weight(grad.b.sum.1, x)");
  EXPECT_EQ(call(graph, "c2.grad_weight"), "conv2d_grad_weight(grad.b.sum.1, x)");
}

// One op gives two parts: each is added by such a sum.
TEST(Autodiff, FirstReaderReadsTwice) {
  const Graph graph = differentiated(R"(
input t f32[4]
param w f32[4]
r: b = relu(w)
square: s = mul(b, b)
join: d = add(s, b)
loss: loss = mean_squared_error(d, t)
output loss
)");
  EXPECT_TRUE(call(graph, "grad.b.sum").starts_with("relu_grad(loss.grad, b, square.")) << call(graph, "grad.b.sum");
  EXPECT_TRUE(call(graph, "grad.b.sum.1").starts_with("relu_grad(grad.b.sum, b, square.")) << call(graph, "grad.b.sum.1");
  EXPECT_EQ(call(graph, "r.grad"), "none");
}

// The first reader of b is the statistics, through which no gradient flows: which part comes last is not known, so that the sum is
// a sum and r has its own gradient.
TEST(Autodiff, FirstReaderGivesNoGradient) {
  const Graph graph = differentiated(R"(
input x f32[2, 3, 4, 4]
input t f32[2, 3, 4, 4]
param w f32[3, 3, 1, 1]
param g f32[3]
param e f32[3]
c: a = conv2d(x, w)
r: b = relu(a)
stats: s = batch_norm_stats(b)
final: mo = batch_norm_finalize(s)
bn: n = batch_norm_apply(b, mo, g, e)
join: d = add(n, b)
loss: loss = mean_squared_error(d, t)
output loss
)");
  EXPECT_EQ(call(graph, "grad.b.sum"), "add(loss.grad, bn.grad_apply)");
  EXPECT_EQ(call(graph, "r.grad"), "relu_grad(grad.b.sum, b)");
}

// Who asks for the gradient of b itself gets all of it.
TEST(Autodiff, WholeGradientOfWhatIsAskedFor) {
  const Graph graph = differentiated(kShared, {"b"});
  EXPECT_EQ(call(graph, "grad.b.sum"), "add(loss.grad, c2.grad_data)");
  EXPECT_EQ(call(graph, "r.grad"), "relu_grad(grad.b.sum, b)");
}

// A norm's relu is undone by the norm's gradient, from x; with a residual, whose gradient is what the relu lets through, by an op
// of its own.
TEST(Autodiff, NormAndRelu) {
  const std::string_view text = R"(
input x f32[2, 3, 4, 4]
input t f32[2, 3, 4, 4]
param w f32[3, 3, 1, 1]
param g f32[3]
param e f32[3]
c: a = conv2d(x, w)
stats: s = batch_norm_stats(a)
final: mo = batch_norm_finalize(s)
bn: n = batch_norm_apply(a, mo, g, e) activation=relu
bn2: y = batch_norm_apply(a, mo, g, e, n) activation=relu
loss: loss = mean_squared_error(y, t)
output loss
)";
  const Graph graph = differentiated(text);
  EXPECT_EQ(call(graph, "bn2.relu_grad"), "relu_grad(loss.grad, y)");
  EXPECT_EQ(call(graph, "bn2.grad_stats"), "batch_norm_grad_stats(bn2.relu_grad, a, mo)");
  EXPECT_EQ(call(graph, "bn2.grad_apply"), "batch_norm_grad_apply(bn2.relu_grad, a, mo, bn2.grad_stats, g)");
  EXPECT_EQ(call(graph, "bn.relu_grad"), "none");
  EXPECT_EQ(call(graph, "bn.grad_stats"), "batch_norm_grad_stats(bn2.relu_grad, a, mo, g, e)");
  EXPECT_EQ(call(graph, "bn.grad_apply"), "batch_norm_grad_apply(bn2.relu_grad, a, mo, bn.grad_stats, g, e)");
}

TEST(Autodiff, ThreeContributionsSumInEmissionOrder) {
  Graph graph = graph_of(R"(
input t f32[4]
param w f32[4]
l1: a = mean_squared_error(w, t)
l2: b = mean_squared_error(w, t)
l3: c = mean_squared_error(w, t)
output a
)");
  differentiate(graph, {{graph.find_value("a"), graph.find_value("b"), graph.find_value("c")}, {}});
  verify_graph(graph);
  const auto names = [&](std::string_view op) {
    std::vector<std::string> inputs;
    for (ValueId input : graph.op(graph.find_op(op)).inputs) inputs.push_back(graph.value(input).name);
    return inputs;
  };
  EXPECT_EQ(names("grad.w.sum"), (std::vector<std::string>{"l3.grad", "l2.grad"}));
  EXPECT_EQ(names("grad.w.sum.1"), (std::vector<std::string>{"grad.w.sum", "l1.grad"}));
  for (std::string_view part : {"l1.grad", "l2.grad", "l3.grad", "grad.w.sum"})
    EXPECT_TRUE(graph.value(graph.find_value(part)).partial) << part;
  EXPECT_FALSE(graph.value(graph.find_value("grad.w.sum.1")).partial);
}

TEST(Autodiff, SameValueTwice) {
  Graph graph = graph_of("\ninput t f32[4]\nparam w f32[4]\ns: y = add(w, w)\nl: loss = mean_squared_error(y, t)\noutput loss\n");
  const AutodiffResult result = differentiate(graph, {{graph.find_value("loss")}, {}});
  verify_graph(graph);
  const Op& sum = graph.op(graph.value(result.gradients.at(0).second).producer);
  EXPECT_EQ(sum.inputs, (std::vector{graph.find_value("l.grad"), graph.find_value("l.grad")}));
  EXPECT_EQ(graph.value(graph.find_value("l.grad")).gradient_of, graph.find_value("y"));
  EXPECT_FALSE(graph.value(graph.find_value("l.grad")).partial);
}

TEST(Autodiff, NothingIsEmittedBeforeTheFirstParameter) {
  Graph graph = graph_of(R"(
input x f32[2, 4]
input t f32[2, 3]
param w f32[3, 4]
pre: h = relu(x)
fc: y = linear(h, w)
l: loss = mean_squared_error(y, t)
output loss
)");
  differentiate(graph, {{graph.find_value("loss")}, {}});
  EXPECT_FALSE(graph.find_op("pre.grad"));
  EXPECT_FALSE(graph.find_op("fc.grad_data"));
  EXPECT_TRUE(graph.find_op("fc.grad_weight"));
  EXPECT_FALSE(graph.find_op("l.grad_target"));
}

TEST(Autodiff, UpdatesInTheForwardPartAreLeftAlone) {
  Graph graph = graph_of(R"(
input x f32[2, 3, 4, 4]
input t f32[2, 3, 4, 4]
param w f32[3, 3, 1, 1]
param g f32[3]
param b f32[3]
state m f32[3]
state v f32[3]
c: a = conv2d(x, w)
stats: s = batch_norm_stats(a)
final: mo = batch_norm_finalize(s)
up: m2 = batch_norm_update(m, v, s)
bn: y = batch_norm_apply(a, mo, g, b)
l: loss = mean_squared_error(y, t)
output loss
)");
  const AutodiffResult result = differentiate(graph, {{graph.find_value("loss")}, {}});
  verify_graph(graph);
  EXPECT_EQ(graph.find_op("up"), OpId(3));
  EXPECT_EQ(graph.op(OpId(3)).phase, Phase::update);
  EXPECT_EQ(graph.value(graph.find_value("v.next")).version_of, graph.find_value("v"));
  // Statistics depend on w, but the gradient through them is inside batch_norm_grad_apply.
  for (const Op& op : graph.ops()) {
    if (op.forward) {
      EXPECT_NE(op.forward, graph.find_op("stats"));
      EXPECT_NE(op.forward, graph.find_op("final"));
      EXPECT_NE(op.forward, graph.find_op("up"));
    }
  }
  std::vector<std::string> wanted;
  for (const auto& [value, gradient] : result.gradients) wanted.push_back(graph.value(value).name);
  EXPECT_EQ(wanted, (std::vector<std::string>{"w", "g", "b"}));
}

class NoGradient final : public OpDef {
 public:
  std::string_view kind() const override { return "no_gradient"; }
  std::string_view help() const override { return "a kind for tests"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<ValueType> infer(const OpSite& site) const override { return {site.in(0)}; }
};

TEST(Autodiff, KindWithoutGradientIsNamed) {
  const NoGradient def;
  Graph graph;
  const ValueId w = graph.add_value("w", {DType::f32, {4}, Format::plain}, Role::parameter);
  const ValueId y = graph.op(graph.add_op("layer", def, {w})).outputs[0];
  EXPECT_EQ(message_of<UserError>([&] {
              differentiate(graph, {{y}, {}});
            }),
            "op layer (no_gradient): has no gradient, but a parameter before it needs one");
}

TEST(Autodiff, OnlyFloatsAreDifferentiated) {
  Graph graph = graph_of("\ninput x f32[2]\ninput n i32[2]\nr: y = relu(x)\noutput y\n");
  const ValueId n = graph.find_value("n");
  EXPECT_EQ(message_of<UserError>([&] { differentiate(graph, {{n}, {}}); }), "'n' cannot be differentiated: it holds i32");
  EXPECT_EQ(message_of<UserError>([&] { differentiate(graph, {{}, {n}}); }), "no gradient with respect to 'n': it holds i32");
}

// A chain of n relus has n backward ops and takes time in proportion; a quadratic driver would not finish.
TEST(Autodiff, IsLinear) {
  register_ops();
  constexpr int kOps = 50000;
  Graph graph;
  ValueId last = graph.add_value("w", {DType::f32, {4}, Format::plain}, Role::parameter);
  for (int i = 0; i < kOps; ++i) last = graph.op(graph.add_op("r" + std::to_string(i), *find_op_def("relu"), {last})).outputs[0];
  differentiate(graph, {{last}, {}});
  EXPECT_EQ(graph.op_count(), 2 * kOps);
  verify_graph(graph);
}

}  // namespace
}  // namespace outsize
