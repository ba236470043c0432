#include <numeric>

#include "../close.h"
#include "subject.h"

// Autodiff and the backward ops of plain loops in f64 against central differences.
namespace outsize::test {
namespace {

constexpr double kTolerance = 1e-6;
// Small enough that no case's relu or maximum changes sides, large enough for twelve digits to be left of f64's sixteen.
constexpr double kStep = 1e-5;
// Of larger tensors as many elements are tried, and all together by one random direction.
constexpr std::size_t kElements = 200;

std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }

class Gradient : public ::testing::TestWithParam<Subject> {
 protected:
  // d(Σ seed · output) along `direction` from `value`.
  double slope(const CaseGraph& graph, const std::vector<OpId>& forward, Values values, ValueId value,
               const std::vector<double>& direction) const {
    const Values start = values;
    const auto shifted = [&](double step) {
      for (std::size_t i = 0; i < direction.size(); ++i)
        values[at(value)].numbers[i] = start[at(value)].numbers[i] + step * direction[i];
      evaluate(exact_backend(), graph, forward, values);
      std::vector<Tensor> outputs;
      for (ValueId output : graph.graph.outputs()) outputs.push_back(values[at(output)]);
      return outputs;
    };
    const std::vector<Tensor> above = shifted(kStep);
    const std::vector<Tensor> below = shifted(-kStep);
    double sum = 0;
    for (std::size_t i = 0; i < above.size(); ++i) {
      const std::vector<double>& seed = start[at(graph.autodiff.seeds[i])].numbers;
      for (std::size_t j = 0; j < seed.size(); ++j) sum += seed[j] * (above[i].numbers[j] - below[i].numbers[j]);
    }
    return sum / (2 * kStep);
  }
};

TEST_P(Gradient, CentralDifferences) {
  const OpCase& op_case = GetParam().op_case;
  const CaseGraph graph(op_case, DType::f64);
  std::vector<OpId> forward = graph.ops();
  std::erase_if(forward, [&](OpId id) { return graph.graph.op(id).phase != Phase::forward; });
  Values values = random_leaves(graph, op_case);
  evaluate(exact_backend(), graph, graph.ops(), values);

  std::size_t leaves = 0;
  for (const Value& value : graph.graph.values())
    leaves += !value.producer && !value.gradient_of && value.role != Role::state && is_float(value.type.dtype);
  EXPECT_EQ(graph.autodiff.gradients.size(), leaves) << "an input or parameter has no gradient";

  Random random(7);
  for (const auto& [value, gradient] : graph.autodiff.gradients) {
    const std::vector<double>& expected = values[at(gradient)].numbers;
    std::vector<std::size_t> elements(expected.size());
    std::iota(elements.begin(), elements.end(), std::size_t{0});
    std::shuffle(elements.begin(), elements.end(), random);
    elements.resize(std::min(elements.size(), kElements));

    std::vector<double> found, numeric;
    for (std::size_t element : elements) {
      std::vector<double> direction(expected.size(), 0.0);
      direction[element] = 1;
      found.push_back(expected[element]);
      numeric.push_back(slope(graph, forward, values, value, direction));
    }
    const std::string& name = graph.graph.value(value).name;
    EXPECT_TRUE(is_close(found, numeric, kTolerance)) << name;

    std::vector<double> direction;
    for (std::size_t i = 0; i < expected.size(); ++i) direction.push_back(random() % 2 ? 1 : -1);
    const double along = std::inner_product(expected.begin(), expected.end(), direction.begin(), 0.0);
    const double norm = std::sqrt(std::inner_product(expected.begin(), expected.end(), expected.begin(), 0.0));
    ASSERT_TRUE(std::isfinite(norm)) << name;
    EXPECT_NEAR(slope(graph, forward, values, value, direction), along, kTolerance * norm) << name << ", random direction";
  }
}

std::vector<Subject> differentiable_subjects() {
  std::vector<Subject> subjects = exact_subjects();
  std::erase_if(subjects, [](const Subject& subject) { return !subject.op_case.differentiate; });
  return subjects;
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, ::testing::ValuesIn(differentiable_subjects()), name_of);

}  // namespace
}  // namespace outsize::test
