#include <cmath>
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

}  // namespace
}  // namespace outsize::test
