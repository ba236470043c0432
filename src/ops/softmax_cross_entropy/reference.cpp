#include <cmath>

#include "ops/reference_support.h"
#include "ops/softmax_cross_entropy/labels.h"

namespace outsize {
namespace {

// The logits of one label: the coordinates of the label with that of the class put between.
template <class T>
class Row {
 public:
  Row(const View<T>& logits, Format format, const Dims& label_at) : logits_(logits) {
    const int class_dim = format == Format::map ? 1 : logits.box().rank() - 1;
    for (int i = 0, from = 0; i < logits.box().rank(); ++i) at_.push_back(i == class_dim ? 0 : label_at[from++]);
    class_dim_ = class_dim;
  }
  T& operator[](std::int64_t k) const {
    Dims at = at_;
    at[class_dim_] = k;
    return logits_[at];
  }

 private:
  const View<T>& logits_;
  Dims at_;
  int class_dim_ = 0;
};

// max + log Σ exp(logit - max): the largest exponent is 0, so that nothing overflows.
template <class T>
T log_sum_exp(const Row<const T>& row, std::int64_t classes) {
  T largest = row[0];
  for (std::int64_t k = 0; k < classes; ++k) largest = std::max(largest, row[k]);
  T sum = 0;
  for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(row[k] - largest);
  return largest + std::log(sum);
}

// What the sum over rows is divided by; 0 where it is the count and that is 0, for then the loss is 0.
template <class T>
T weight_of_row(const ReferenceCall& call, const LabelRule& rule, int count_input) {
  const T rows = rule.ignores ? call.in<T>(count_input)(std::int64_t{0}) : static_cast<T>(rule.all_rows);
  return rows == 0 ? T{0} : 1 / rows;
}

std::int64_t checked(const LabelRule& rule, std::int64_t label, std::int64_t row) {
  if (!rule.fits(label)) rule.refuse(label, row);
  return label;
}

void softmax_cross_entropy(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto logits = call.in<T>(0);
    const auto labels = call.in<std::int32_t>(1);
    const LabelRule rule(call.site(), 2);
    const T smoothing = static_cast<T>(rule.smoothing);
    T sum = 0;
    std::int64_t rows = 0;
    labels.for_each([&](const Dims& at) {
      const std::int64_t label = checked(rule, labels[at], rows++);
      if (!rule.counts(label)) return;
      const Row<const T> row(logits, call.in_type(0).format, at);
      sum += log_sum_exp(row, rule.classes) - (1 - smoothing) * row[label];
      if (smoothing == 0) return;  // 0 times the sum would be NaN where a logit is infinite
      T total = 0;
      for (std::int64_t k = 0; k < rule.classes; ++k) total += row[k];
      sum -= smoothing * total / static_cast<T>(rule.classes);
    });
    call.out<T>(0)(std::int64_t{0}) = sum * weight_of_row<T>(call, rule, 2);
  });
}

void softmax_cross_entropy_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto logits = call.in<T>(0);
    const auto labels = call.in<std::int32_t>(1);
    const auto dlogits = call.out<T>(0);
    const LabelRule rule(call.site(), 3);
    const T scale = call.in<T>(2)(std::int64_t{0}) * weight_of_row<T>(call, rule, 3);
    const T smoothing = static_cast<T>(rule.smoothing);
    dlogits.clear();
    std::int64_t rows = 0;
    labels.for_each([&](const Dims& at) {
      const std::int64_t label = checked(rule, labels[at], rows++);
      if (!rule.counts(label)) return;
      const Row<const T> row(logits, call.in_type(0).format, at);
      const Row<T> drow(dlogits, call.in_type(0).format, at);
      const T log_sum = log_sum_exp(row, rule.classes);
      for (std::int64_t k = 0; k < rule.classes; ++k) {
        const T target = smoothing / static_cast<T>(rule.classes) + (k == label ? 1 - smoothing : T{0});
        drow[k] = scale * (std::exp(row[k] - log_sum) - target);
      }
    });
  });
}

}  // namespace

void reference_softmax_cross_entropy(KernelTable& table) {
  table.add("softmax_cross_entropy", reference_kernel<softmax_cross_entropy>);
  table.add("softmax_cross_entropy_grad", reference_kernel<softmax_cross_entropy_grad>);
}

}  // namespace outsize
