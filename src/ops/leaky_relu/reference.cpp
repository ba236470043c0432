#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

void leaky_relu(const ReferenceCall& call) {
  const double slope = call.site().number("slope");
  reference_pointwise(call, [&](auto x) { return x < 0 ? static_cast<decltype(x)>(slope) * x : x; });
}

void leaky_relu_grad(const ReferenceCall& call) {
  const double slope = call.site().number("slope");
  reference_pointwise_grad(call, [&](auto dy, auto y) { return y > 0 ? dy : static_cast<decltype(y)>(slope) * dy; });
}

}  // namespace

void reference_leaky_relu(KernelTable& table) {
  table.add("leaky_relu", reference_kernel<leaky_relu>);
  table.add("leaky_relu_grad", reference_kernel<leaky_relu_grad>);
}

}  // namespace outsize
