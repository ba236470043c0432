#include <cmath>
#include <limits>

#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

// As C's pow, except that a fraction as the exponent has no power of −∞ either, where C has one of −∞ alone of all x < 0.
template <class T>
T power_of(T x, double exponent) {
  const bool fraction = exponent != std::nearbyint(exponent);
  return fraction && x < 0 ? std::numeric_limits<T>::quiet_NaN() : std::pow(x, static_cast<T>(exponent));
}

void power(const ReferenceCall& call) {
  const double exponent = call.site().number("exponent");
  reference_pointwise(call, [&](auto x) { return power_of(x, exponent); });
}

// A constant has the gradient 0, also at x = 0.
void power_grad(const ReferenceCall& call) {
  const double exponent = call.site().number("exponent");
  reference_pointwise_grad(call, [&](auto dy, auto x) {
    using T = decltype(x);
    return exponent == 0 ? T{0} : dy * static_cast<T>(exponent) * power_of(x, exponent - 1);
  });
}

}  // namespace

void reference_power(KernelTable& table) {
  table.add("power", reference_kernel<power>);
  table.add("power_grad", reference_kernel<power_grad>);
}

}  // namespace outsize
