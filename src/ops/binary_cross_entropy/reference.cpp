#include <cmath>

#include "ops/reference_support.h"

namespace outsize {
namespace {

void binary_cross_entropy(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto logits = call.in<T>(0);
    const auto target = call.in<T>(1);
    double sum = 0;
    logits.for_each([&](const Dims& at) {
      const double x = static_cast<double>(logits[at]);
      sum += std::max(x, 0.0) - x * static_cast<double>(target[at]) + std::log1p(std::exp(-std::abs(x)));
    });
    call.out<T>(0)(std::int64_t{0}) = static_cast<T>(sum / static_cast<double>(call.in_type(0).elements()));
  });
}

void binary_cross_entropy_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto logits = call.in<T>(0);
    const auto target = call.in<T>(1);
    const auto dx = call.out<T>(0);
    const T factor = call.in<T>(2)(std::int64_t{0}) / static_cast<T>(call.in_type(0).elements());
    dx.for_each([&](const Dims& at) { dx[at] = factor * (1 / (1 + std::exp(-logits[at])) - target[at]); });
    dx.clear_padding();
  });
}

}  // namespace

void reference_binary_cross_entropy(KernelTable& table) {
  table.add("binary_cross_entropy", reference_kernel<binary_cross_entropy>);
  table.add("binary_cross_entropy_grad", reference_kernel<binary_cross_entropy_grad>);
}

}  // namespace outsize
