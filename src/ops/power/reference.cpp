#include <cmath>

#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

void power(const ReferenceCall& call) {
  const double exponent = call.site().number("exponent");
  reference_pointwise(call, [&](auto x) { return std::pow(x, static_cast<decltype(x)>(exponent)); });
}

// A constant has the gradient 0, also at x = 0.
void power_grad(const ReferenceCall& call) {
  const double exponent = call.site().number("exponent");
  reference_pointwise_grad(call, [&](auto dy, auto x) {
    using T = decltype(x);
    return exponent == 0 ? T{0} : dy * static_cast<T>(exponent) * std::pow(x, static_cast<T>(exponent - 1));
  });
}

}  // namespace

void reference_power(KernelTable& table) {
  table.add("power", reference_kernel<power>);
  table.add("power_grad", reference_kernel<power_grad>);
}

}  // namespace outsize
