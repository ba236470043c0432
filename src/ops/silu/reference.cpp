#include <cmath>

#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

void silu(const ReferenceCall& call) {
  reference_pointwise(call, [](auto x) { return x / (1 + std::exp(-x)); });
}

void silu_grad(const ReferenceCall& call) {
  reference_pointwise_grad(call, [](auto dy, auto x) {
    const auto s = 1 / (1 + std::exp(-x));
    return dy * s * (1 + x * (1 - s));
  });
}

}  // namespace

void reference_silu(KernelTable& table) {
  table.add("silu", reference_kernel<silu>);
  table.add("silu_grad", reference_kernel<silu_grad>);
}

}  // namespace outsize
