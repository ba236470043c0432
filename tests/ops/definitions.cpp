#include <cmath>
#include <limits>
#include <map>

#include "graph/text.h"
#include "ops/registry.h"
#include "subject.h"

// The plain loops themselves, against numbers worked out by hand: everything else is checked against the loops.
namespace outsize::test {
namespace {

using Numbers = std::vector<double>;

// Runs a graph text in f64 on these inputs and returns the named value.
class Definition {
 public:
  Definition(const std::string& text, const std::map<std::string, Numbers>& leaves)
      : op_case_{"definition", text, 2, false}, graph_(op_case_, DType::f64), values_(random_leaves(graph_, op_case_)) {
    for (const auto& [name, numbers] : leaves) {
      Numbers& target = values_[index(name)].numbers;
      OUTSIZE_CHECK(target.size() == numbers.size());
      target = numbers;
    }
    evaluate(exact_backend(), graph_, graph_.ops(), values_);
  }

  const Numbers& operator[](const std::string& name) const { return values_[index(name)].numbers; }

 private:
  std::size_t index(const std::string& name) const {
    const ValueId id = graph_.graph.find_value(name);
    OUTSIZE_CHECK(id.valid());
    return static_cast<std::size_t>(id.index);
  }

  OpCase op_case_;
  CaseGraph graph_;
  Values values_;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The very same numbers, a NaN where one is expected.
void expect_same(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
        << "element " << i << " is " << found[i] << ", expected " << expected[i];
}

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "element " << i;
}

TEST(Definition, BatchNorm) {
  // {1, 3, 5, 7}: mean 4, M2 9 + 1 + 1 + 9 = 20, variance 5 with eps 4 gives 1 / sqrt(9).
  // y = (x - 4) / 3 · 3 + 1. Running mean 0.9 · 10 + 0.1 · 4, variance 0.9 · 1 + 0.1 · 20 / 3 (unbiased).
  const Definition norm(R"(
input x f64[2, 1, 1, 2]
param gamma f64[1]
param beta f64[1]
state mean f64[1]
state var f64[1]
stats: stats = batch_norm_stats(x)
update: mean.next, var.next = batch_norm_update(mean, var, stats)
finalize: moments = batch_norm_finalize(stats) eps=4.0
apply: y = batch_norm_apply(x, moments, gamma, beta)
relu: z = batch_norm_apply(x, moments, gamma, beta, y) activation=relu
output y
)",
                        {{"x", {1, 3, 5, 7}}, {"gamma", {3}}, {"beta", {1}}, {"mean", {10}}, {"var", {1}}});
  expect_near(norm["stats"], {4, 4, 20});
  expect_near(norm["moments"], {4, 1.0 / 3});
  expect_near(norm["y"], {-2, 0, 2, 4});
  expect_near(norm["z"], {0, 0, 4, 8});
  expect_near(norm["mean.next"], {9.4});
  expect_near(norm["var.next"], {0.9 + 2.0 / 3});
}

// y = x - 3 before the relu, of which 2 and 6 are above 0: dy there is 30 and 40. Normalized, x is -0.5, 0.5, 1.5, 3.5; the sums
// are 30 + 40 and 30 · 1.5 + 40 · 3.5, and dx = what passes of dy - (70 + normalized · 185) / 4, since gamma · inv_std is 1.
TEST(Definition, GradientOfBatchNormAndRelu) {
  const Definition norm(R"(
input dy f64[1, 1, 1, 4]
input x f64[1, 1, 1, 4]
input moments f64[2, 1]
param gamma f64[1]
param beta f64[1]
stats: sums = batch_norm_grad_stats(dy, x, moments, gamma, beta)
apply: dx = batch_norm_grad_apply(dy, x, moments, sums, gamma, beta)
output dx
)",
                        {{"dy", {kNan, 20, 30, 40}}, {"x", {1, 3, 5, 9}}, {"moments", {2, 0.5}}, {"gamma", {2}}, {"beta", {-1}}});
  expect_near(norm["sums"], {70, 185});
  expect_near(norm["dx"], {5.625, -40.625, -56.875, -139.375});
}

TEST(Definition, SoftmaxCrossEntropy) {
  // Probabilities 1/2 and, of class 1 in {log 3, 0}, 1/4: (log 2 + log 4) / 2.
  const Definition loss(R"(
input logits f64[2, 2]
input labels i32[2]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
                        {{"logits", {1000, 1000, std::log(3.0), 0}}, {"labels", {0, 1}}});
  expect_near(loss["loss"], {1.5 * std::log(2.0)});
}

TEST(Definition, SoftmaxCrossEntropySmoothedAndIgnored) {
  // Of {log 3, 0} with label 1 and ε = 1/2: log 4 - 1/2 · 0 - 1/4 · log 3; the second row is ignored.
  const std::string text = R"(
input logits f64[2, 2]
input labels i32[2]
count: count = label_count(labels) dtype=f64
loss: loss = softmax_cross_entropy(logits, labels, count) label_smoothing=0.5
output loss
)";
  const Numbers logits{std::log(3.0), 0, 5, 7};
  const Definition loss(text, {{"logits", logits}, {"labels", {1, -100}}});
  expect_near(loss["count"], {1});
  expect_near(loss["loss"], {std::log(4.0) - 0.25 * std::log(3.0)});
  expect_near(Definition(text, {{"logits", logits}, {"labels", {-100, -100}}})["loss"], {0});
}

TEST(Definition, BinaryCrossEntropy) {
  // σ(log 3) = 3/4: -log(3/4) for target 1 and -log(1/4) for target 0.
  const Definition loss("input x f64[2]\nstate t f64[2]\nloss: loss = binary_cross_entropy(x, t)\noutput loss\n",
                        {{"x", {std::log(3.0), std::log(3.0)}}, {"t", {1, 0}}});
  expect_near(loss["loss"], {(std::log(4.0 / 3) + std::log(4.0)) / 2});
}

TEST(Definition, SoftDice) {
  // Channel 0: Σ p·t = 0.5, Σ p = 0.75, Σ t = 1: 1 - 2 / 2.75. Channel 1, by labels 0, 1: 0.75, 1.25, 1: 1 - 2.5 / 3.25.
  const Definition dice(R"(
input p f64[1, 2, 2]
input labels i32[1, 2]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
                        {{"p", {0.5, 0.25, 0.5, 0.75}}, {"labels", {0, 1}}});
  expect_near(dice["sums"], {0.5, 0.75, 0.75, 1.25, 1, 1});
  expect_near(dice["loss"], {1 - (2 / 2.75 + 2.5 / 3.25) / 2});
}

// Logits so far apart that e^(x - the largest of all) is 0 for most positions.
TEST(Definition, CrossEntropyOfDistantLogits) {
  const OpCase op_case{"distant", R"(
graph distant
input logits f32[1, 5, 4, 9]
input labels i32[1, 4, 9]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
                       5};
  const CaseGraph exact_graph(op_case, DType::f64);
  Values leaves = random_leaves(exact_graph, op_case);
  const auto index = [&](const char* name) { return static_cast<std::size_t>(exact_graph.graph.find_value(name).index); };
  Tensor& logits = leaves[index("logits")];
  for (std::size_t i = 0; i < logits.numbers.size(); ++i)
    logits.numbers[i] = static_cast<float>(logits.numbers[i] + static_cast<double>(i % 36) * 20 - 300);
  Values expected = leaves;
  evaluate(exact_backend(), exact_graph, exact_graph.ops(), expected);
  for (const Backend& backend : backends()) {
    const CaseGraph graph(op_case, backend.dtype);
    Values found = leaves;
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i] = convert(found[i], graph.graph.value(ValueId(static_cast<std::int64_t>(i))).type.dtype);
    evaluate(backend, graph, graph.ops(), found);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(relative_error(found[i], expected[i]), 1e-5)
          << backend.name << ", " << graph.graph.value(ValueId(static_cast<std::int64_t>(i))).name;
  }
}

TEST(Definition, LabelOutsideClassesIsRefused) {
  const auto run = [] {
    Definition(R"(
input logits f64[1, 2]
input labels i32[1]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
               {{"logits", {0, 0}}, {"labels", {2}}});
  };
  EXPECT_THROW(run(), UserError);
}

TEST(Definition, MeanSquaredError) {
  // (1² + 2²) / 2
  const Definition loss("input x f64[2]\ninput target f64[2]\nloss: loss = mean_squared_error(x, target)\noutput loss\n",
                        {{"x", {1, 2}}, {"target", {0, 4}}});
  expect_near(loss["loss"], {2.5});
}

TEST(Definition, ReluAndAdd) {
  const Definition sum("input x f64[3]\nrelu: y = relu(x)\nadd: z = add(y, x)\noutput z\n", {{"x", {-1, 0, 2}}});
  expect_near(sum["y"], {0, 0, 2});
  expect_near(sum["z"], {-1, 0, 4});
}

TEST(Definition, Sgd) {
  // g = 0.5 + 0.01 · 1 = 0.51; buffer 0.9 · 2 + 0.51 = 2.31; weight 1 - 0.1 · 2.31. Without momentum: 1 - 0.1 · 0.51.
  const Definition step(R"(
param a f64[1]
param b f64[1]
state buffer f64[1]
input grad f64[1]
input lr f64[1]
with: a.next, buffer.next = sgd(a, grad, lr, buffer) momentum=0.9 weight_decay=0.01
without: b.next = sgd(b, grad, lr) weight_decay=0.01
output a.next
)",
                        {{"a", {1}}, {"b", {1}}, {"buffer", {2}}, {"grad", {0.5}}, {"lr", {0.1}}});
  expect_near(step["a.next"], {0.769});
  expect_near(step["buffer.next"], {2.31});
  expect_near(step["b.next"], {0.949});
}

TEST(Definition, SgdNesterovClipped) {
  // g = 0.5 · 1 = 0.5; buffer 0.8 · 2 + 0.5 = 2.1; weight 1 - 0.1 · (0.5 + 0.8 · 2.1).
  const Definition step(R"(
param a f64[1]
state buffer f64[1]
input grad f64[1]
input lr f64[1]
input factor f64[1]
step: a.next, buffer.next = sgd(a, grad, lr, buffer, factor) momentum=0.8 nesterov=1 clip=1
output a.next
)",
                        {{"a", {1}}, {"buffer", {2}}, {"grad", {1}}, {"lr", {0.1}}, {"factor", {0.5}}});
  expect_near(step["a.next"], {0.782});
  expect_near(step["buffer.next"], {2.1});
}

TEST(Definition, Adam) {
  // Step 2 with betas 1/2 and 3/4: g = 2; m = 0.5 · 2 + 0.5 · 2 = 2 over 1 - 1/4; v = 0.75 · 4 + 0.25 · 4 = 4 over 1 - 9/16.
  // a: 1 - 0.3 · (8/3) / (2 / √(7/16) + 1). AdamW takes 0.3 · 0.5 of b off first.
  const std::string inputs = "input grad f64[1]\ninput lr f64[1]\ninput step i32[1]\n";
  const Definition step(
      "param a f64[1]\nparam b f64[1]\nstate m f64[1]\nstate v f64[1]\nstate n f64[1]\nstate w f64[1]\n" + inputs +
          "adam: a.next = adam(a, grad, lr, step, m, v) beta1=0.5 beta2=0.75 eps=1.0\n"
          "adamw: b.next = adam(b, grad, lr, step, n, w) beta1=0.5 beta2=0.75 eps=1.0 weight_decay=0.5 "
          "decoupled=1\noutput a.next\n",
      {{"a", {1}}, {"b", {1}}, {"m", {2}}, {"v", {4}}, {"n", {2}}, {"w", {4}}, {"grad", {2}}, {"lr", {0.3}}, {"step", {2}}});
  const double change = 0.8 / (8 / std::sqrt(7.0) + 1);
  expect_near(step["a.next"], {1 - change});
  expect_near(step["b.next"], {0.85 - change});
  expect_near(step["m.next"], {2});
  expect_near(step["v.next"], {4});
}

TEST(Definition, ClipFactor) {
  // √(9 + 16) = 5: gradients of norm 5 become 2.5, those of norm 0.5 stay.
  const Definition clip(R"(
input a f64[1]
input b f64[2]
a: sum_a = square_sum(a)
b: sum_b = square_sum(b)
both: factor = clip_factor(sum_a, sum_b) max_norm=2.5
large: one = clip_factor(sum_a, sum_b) max_norm=6
output factor
)",
                        {{"a", {3}}, {"b", {0, -4}}});
  expect_near(clip["factor"], {2.5 / (5 + 1e-6)});
  expect_near(clip["one"], {1});
}

// What PyTorch does with a NaN: it stays one in relu and the maximum, passes the gradient of relu, and makes the factor that clips
// NaN.
TEST(Definition, NanStays) {
  const Definition ops(R"(
input x f64[1, 1, 2, 2]
input dy f64[1, 1, 2, 2]
input more f64[1, 1, 2, 2]
input part f64[1]
relu: y = relu(x)
grad: dx = relu_grad(dy, x)
sum: dx2 = relu_grad(dy, x, more)
pool: most, where = max_pool(x) kernel=[2, 2] activation=relu
clip: factor = clip_factor(part) max_norm=2.5
output y
)",
                       {{"x", {kNan, 2, -3, kNan}}, {"dy", {5, 6, kNan, kNan}}, {"more", {1, kNan, kNan, 7}}, {"part", {kNan}}});
  expect_same(ops["y"], {kNan, 2, 0, kNan});
  expect_same(ops["dx"], {5, 6, 0, kNan});
  expect_same(ops["dx2"], {6, kNan, 0, kNan});
  expect_same(ops["most"], {kNan});
  expect_same(ops["where"], {3});
  expect_same(ops["factor"], {kNan});
}

// A NaN counts as larger than any number, as in PyTorch's topk; where the label's own logit is NaN, nothing is correct.
TEST(Definition, CorrectCountOfNan) {
  const Definition count(R"(
input logits f64[4, 3]
input labels i32[4]
one: first = correct_count(logits, labels)
two: second = correct_count(logits, labels) k=2
output first
)",
                         {{"logits", {1, 2, 3, 1, kNan, 3, 1, 2, kNan, kNan, kNan, kNan}}, {"labels", {2, 2, 2, 0}}});
  expect_same(count["first"], {1});
  expect_same(count["second"], {2});
}

// A key that is NaN makes every query NaN that sees it; only scores of −∞ are a mask.
TEST(Definition, AttentionOfNan) {
  const Definition attention(R"(
input q f64[1, 2, 1]
input k f64[1, 2, 1]
input v f64[1, 2, 1]
look: y, lse = attention(q, k, v) heads=1 causal=1
output y
)",
                             {{"q", {1, 1}}, {"k", {kNan, 1}}, {"v", {2, 3}}});
  expect_same(attention["y"], {kNan, kNan});
  expect_same(attention["lse"], {kNan, kNan});
}

// A logit of −∞ is a class that cannot be: the loss of any other is finite.
TEST(Definition, CrossEntropyOfAMaskedClass) {
  const Definition loss(R"(
input logits f64[1, 3]
input labels i32[1]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
                        {{"logits", {0, -std::numeric_limits<double>::infinity(), 0}}, {"labels", {0}}});
  expect_near(loss["loss"], {std::log(2)});
}

}  // namespace
}  // namespace outsize::test
