#include <cmath>

#include "ops/reference_support.h"

namespace outsize {
namespace {

// The label of a row. Throws UserError when it is no class: the data is wrong, not the graph.
std::int64_t label_of(const View<const std::int32_t>& labels, std::int64_t row, std::int64_t classes) {
  const std::int64_t label = labels(row);
  if (label < 0 || label >= classes)
    user_error("label {} of row {} is outside [0, {}); check the labels of the data", label, row, classes);
  return label;
}

// max + log Σ exp(logit - max): the largest exponent is 0, so that nothing overflows.
template <class T>
T log_sum_exp(const View<const T>& logits, std::int64_t row) {
  const Interval classes = logits.range(1);
  T largest = logits(row, classes.lo);
  for (std::int64_t k = classes.lo; k < classes.hi; ++k) largest = std::max(largest, logits(row, k));
  T sum = 0;
  for (std::int64_t k = classes.lo; k < classes.hi; ++k) sum += std::exp(logits(row, k) - largest);
  return largest + std::log(sum);
}

void softmax_cross_entropy(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto logits = call.in<T>(0);
    const auto labels = call.in<std::int32_t>(1);
    const Dims& shape = call.in_type(0).shape;
    T sum = 0;
    for (std::int64_t row = logits.range(0).lo; row < logits.range(0).hi; ++row)
      sum += log_sum_exp(logits, row) - logits(row, label_of(labels, row, shape[1]));
    call.out<T>(0)(std::int64_t{0}) = sum / static_cast<T>(shape[0]);
  });
}

void softmax_cross_entropy_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto logits = call.in<T>(0);
    const auto labels = call.in<std::int32_t>(1);
    const auto dlogits = call.out<T>(0);
    const Dims& shape = call.in_type(0).shape;
    const T scale = call.in<T>(2)(std::int64_t{0}) / static_cast<T>(shape[0]);
    for (std::int64_t row = logits.range(0).lo; row < logits.range(0).hi; ++row) {
      const T log_sum = log_sum_exp(logits, row);
      const std::int64_t label = label_of(labels, row, shape[1]);
      for (std::int64_t k = 0; k < shape[1]; ++k)
        dlogits(row, k) = scale * (std::exp(logits(row, k) - log_sum) - static_cast<T>(k == label));
    }
  });
}

}  // namespace

void reference_softmax_cross_entropy(KernelTable& table) {
  table.add("softmax_cross_entropy", reference_kernel<softmax_cross_entropy>);
  table.add("softmax_cross_entropy_grad", reference_kernel<softmax_cross_entropy_grad>);
}

}  // namespace outsize
