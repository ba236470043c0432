#include <cmath>
#include <numbers>

#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

template <class T>
T inner(T x) {  // of the tanh
  return static_cast<T>(std::sqrt(2 / std::numbers::pi)) * (x + static_cast<T>(0.044715) * x * x * x);
}

template <class T>
T distribution(T x) {
  return (1 + std::erf(x * static_cast<T>(std::numbers::sqrt2 / 2))) / 2;
}

void gelu(const ReferenceCall& call) {
  if (call.site().word("approximate") == "tanh")
    reference_pointwise(call, [](auto x) { return x * (1 + std::tanh(inner(x))) / 2; });
  else
    reference_pointwise(call, [](auto x) { return x * distribution(x); });
}

void gelu_grad(const ReferenceCall& call) {
  if (call.site().word("approximate") == "tanh") {
    reference_pointwise_grad(call, [](auto dy, auto x) {
      using T = decltype(x);
      const T t = std::tanh(inner(x));
      const T slope = static_cast<T>(std::sqrt(2 / std::numbers::pi)) * (1 + 3 * static_cast<T>(0.044715) * x * x);
      return dy * (1 + t + x * (1 - t * t) * slope) / 2;
    });
  } else {
    reference_pointwise_grad(call, [](auto dy, auto x) {
      using T = decltype(x);
      const T density = std::exp(-x * x / 2) * static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      return dy * (distribution(x) + x * density);
    });
  }
}

}  // namespace

void reference_gelu(KernelTable& table) {
  table.add("gelu", reference_kernel<gelu>);
  table.add("gelu_grad", reference_kernel<gelu_grad>);
}

}  // namespace outsize
