#include <cmath>
#include <limits>
#include <set>

#include "../close.h"
#include "subject.h"

// A NaN or an infinity in one element of one input, op by op: it must show in the outputs, so that training stops there instead of
// going on with numbers that mean nothing.
namespace outsize::test {
namespace {

constexpr double kTolerance = 1e-5;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Where something is planted: the first element, the last, which lies in the last block of channels, and one between.
std::set<std::size_t> places(const Tensor& input) {
  const std::size_t count = input.numbers.size();
  if (count == 0) return {};
  return {0, count * 5 / 9, count - 1};
}

std::string describe(const OpSite& site, int input, std::size_t place, double planted, int output) {
  return fmt::format("{} ({}), output {}, with {} in element {} of input {}", site.op.name, site.op.def->kind(), output, planted,
                     place, input);
}

// Calls `check(input, place)` for each.
template <class Check>
void for_each_place(const OpSite& site, const std::vector<Tensor>& inputs, const Check& check) {
  for (int input = 0; input < site.inputs(); ++input)
    if (is_float(site.in(input).dtype))
      for (const std::size_t place : places(inputs[at(input)])) check(input, place);
}

// The outputs of an op with this number in that element of an input.
std::vector<Tensor> run_planted(const Backend& backend, const OpSite& site, std::vector<Tensor> inputs, int input,
                                std::size_t place, double number) {
  inputs[at(input)].numbers[place] = number;
  Invocation call = whole(site);
  call.not_finite = !std::isfinite(number);
  return run_op(backend, site, inputs, call);
}

// Whether NaN and infinities may reach more of the outputs than they do in plain loops.
bool may_stray(std::string_view kind, double number) {
  // Kernels that multiply by the zeros of padding, of joined groups and of masked keys: 0 · NaN and 0 · ∞ are NaN.
  if (kind.starts_with("conv") || kind.starts_with("attention")) return true;
  // y = x · scale + shift: of an infinite moment or scale the shift is infinite too, and ∞ − ∞ is NaN where relu(−∞) is 0.
  return kind == "group_norm_apply" && std::isinf(number);
}

// The results of a call in which `number` was planted beside those of plain loops in f64. Where those are NaN they must be NaN,
// where those are infinite they must not be finite (of infinities the order of sums and factors makes NaN, or not), and where those
// are finite they must be the same numbers.
void expect_alike(const Tensor& result, const Tensor& exact, double number, bool strays, const std::string& what) {
  std::vector<double> found = result.numbers, expected = exact.numbers;
  std::size_t hidden = 0, other = 0, strayed = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(found[i]) && std::isfinite(expected[i])) continue;
    hidden += std::isfinite(found[i]);
    strayed += std::isfinite(expected[i]);
    other += std::isnan(number) && std::isnan(expected[i]) && !std::isnan(found[i]);
    found[i] = expected[i] = 0;
  }
  EXPECT_EQ(hidden, 0u) << what << ": finite numbers where NaN or infinity is expected";
  EXPECT_EQ(other, 0u) << what << ": no NaN where it is expected";
  EXPECT_TRUE(strays || strayed == 0) << what << ": NaN or infinity where finite numbers are expected";
  EXPECT_TRUE(is_close(found, expected, is_float(exact.type.dtype) ? kTolerance : 0)) << what;
}

class NotFinite : public ::testing::TestWithParam<Subject> {};

TEST_P(NotFinite, AsInPlainLoops) {
  const auto& [op, op_case, backend] = GetParam();
  const Bench bench(op_case, *backend);
  for (OpId id : bench.ops()) {
    const OpSite site = bench.graph().site(id);
    const OpSite exact_site = bench.exact_graph().site(id);
    const std::vector<Tensor> inputs = bench.inputs(id);
    const std::vector<Tensor> exact_inputs = bench.exact_inputs(id);
    for_each_place(site, inputs, [&](int input, std::size_t place) {
      for (const double number : {kNan, kInfinity, -kInfinity}) {
        const std::vector<Tensor> results = run_planted(*backend, site, inputs, input, place, number);
        const std::vector<Tensor> expected = run_planted(exact_backend(), exact_site, exact_inputs, input, place, number);
        for (int i = 0; i < site.outputs(); ++i)
          expect_alike(results[at(i)], expected[at(i)], number, may_stray(site.op.def->kind(), number),
                       describe(site, input, place, number, i));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, NotFinite, ::testing::ValuesIn(all_subjects(false)), name_of);

class KeepsNan : public ::testing::TestWithParam<Subject> {};

// In plain loops a NaN reaches every element of the outputs that changes with the element it is planted in.
TEST_P(KeepsNan, WhereAChangeShows) {
  const auto& [op, op_case, backend] = GetParam();
  const Bench bench(op_case, *backend);
  for (OpId id : bench.ops()) {
    const OpSite site = bench.graph().site(id);
    const std::vector<Tensor> inputs = bench.inputs(id);
    const std::vector<Tensor> before = run_op(*backend, site, inputs, whole(site));
    for_each_place(site, inputs, [&](int input, std::size_t place) {
      const std::vector<Tensor> after =
          run_planted(*backend, site, inputs, input, place, inputs[at(input)].numbers[place] * (1 + 1e-6));
      const std::vector<Tensor> results = run_planted(*backend, site, inputs, input, place, kNan);
      for (int i = 0; i < site.outputs(); ++i) {
        if (!is_float(site.out(i).dtype)) continue;
        std::size_t hidden = 0;
        for (std::size_t j = 0; j < results[at(i)].numbers.size(); ++j)
          hidden += before[at(i)].numbers[j] != after[at(i)].numbers[j] && !std::isnan(results[at(i)].numbers[j]);
        EXPECT_EQ(hidden, 0u) << describe(site, input, place, kNan, i) << ": not NaN, though they depend on it";
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, KeepsNan, ::testing::ValuesIn(exact_subjects()), name_of);

// Kernels of the host refuse a label that is no class. Block programs cannot: they make NaN of the loss, and of the row's gradient.
TEST(LabelOutsideClasses, IsRefusedOrMakesNan) {
  constexpr std::size_t kRow = 2, kClasses = 3;
  const OpCase op_case{"bad_label", R"(
graph bad_label
input logits f32[5, 3]
input labels i32[5]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
                       kClasses};
  for (const Backend& backend : backends()) {
    const Bench bench(op_case, backend);
    for (OpId id : bench.ops()) {
      const OpSite site = bench.graph().site(id);
      for (const double label : {-1.0, static_cast<double>(kClasses)}) {
        if (backend.kernels->backend != "cuda-host") {
          EXPECT_THROW(run_planted(backend, site, bench.inputs(id), 1, kRow, label), UserError) << backend.name;
          continue;
        }
        std::vector<Tensor> inputs = bench.inputs(id);
        inputs[1].numbers[kRow] = label;
        Invocation call = whole(site);
        call.not_finite = true;
        const std::vector<double> found = run_op(backend, site, inputs, call)[0].numbers;
        const bool loss = found.size() == 1;
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(std::isnan(found[i]), loss || i / kClasses == kRow) << describe(site, 1, kRow, label, 0) << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace outsize::test
