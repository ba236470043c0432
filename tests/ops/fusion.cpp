#include "graph/fusion.h"

#include "graph/text.h"
#include "ops/registry.h"
#include "subject.h"

// A fused graph computes what the graph does, forward and backward.
namespace outsize::test {
namespace {

constexpr double kTolerance = 1e-12;

class Fusion : public ::testing::TestWithParam<Subject> {};

const Tensor& named(const CaseGraph& graph, const Values& values, const std::string& name) {
  const ValueId id = graph.graph.find_value(name);
  OUTSIZE_CHECK(id.valid());
  return values[static_cast<std::size_t>(id.index)];
}

TEST_P(Fusion, SameOutputsAndGradients) {
  const OpCase& op_case = GetParam().op_case;
  const CaseGraph plain(op_case, DType::f64);
  const CaseGraph fused(op_case, DType::f64, true);
  Values plain_values = random_leaves(plain, op_case);
  Values fused_values = random_leaves(fused, op_case);
  for (std::size_t i = 0; i < fused_values.size(); ++i) {
    const Value& value = fused.graph.values()[i];
    if (!value.producer) fused_values[i] = named(plain, plain_values, value.name);
  }
  evaluate(exact_backend(), plain, plain.ops(), plain_values);
  evaluate(exact_backend(), fused, fused.ops(), fused_values);

  ASSERT_EQ(fused.graph.outputs().size(), plain.graph.outputs().size());
  for (ValueId output : plain.graph.outputs()) {
    const std::string& name = plain.graph.value(output).name;
    EXPECT_LE(relative_error(named(fused, fused_values, name), named(plain, plain_values, name)), kTolerance) << name;
  }
  ASSERT_EQ(fused.autodiff.gradients.size(), plain.autodiff.gradients.size());
  for (std::size_t i = 0; i < plain.autodiff.gradients.size(); ++i) {
    const auto& [value, gradient] = plain.autodiff.gradients[i];
    const auto& [fused_value, fused_gradient] = fused.autodiff.gradients[i];
    ASSERT_EQ(fused.graph.value(fused_value).name, plain.graph.value(value).name);
    EXPECT_LE(relative_error(fused_values[static_cast<std::size_t>(fused_gradient.index)],
                             plain_values[static_cast<std::size_t>(gradient.index)]),
              kTolerance)
        << plain.graph.value(value).name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Fusion, ::testing::ValuesIn(exact_subjects()), name_of);

TEST(FusionOfNorm, AddAndReluJoinIt) {
  register_ops();
  const Graph graph = fuse(parse_graph(R"(
graph block
input x f32[2, 5, 7, 6]
input branch f32[2, 5, 7, 6]
input moments f64[2, 5]
param gamma f32[5]
param beta f32[5]
apply: normalized = batch_norm_apply(x, moments, gamma, beta)
add: sum = add(branch, normalized)
relu: y = relu(sum)
output y
)",
                                       "block"));
  ASSERT_EQ(graph.op_count(), 1);
  const Op& op = graph.op(OpId(0));
  EXPECT_EQ(op.def->kind(), "batch_norm_apply");
  EXPECT_EQ((OpSite{graph, op}.word("activation")), "relu");
  ASSERT_EQ(op.inputs.size(), 5u);
  EXPECT_EQ(graph.value(op.inputs[4]).name, "branch");
}

}  // namespace
}  // namespace outsize::test
