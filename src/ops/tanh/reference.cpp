#include <cmath>

#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

void tanh_of(const ReferenceCall& call) {
  reference_pointwise(call, [](auto x) { return std::tanh(x); });
}

void tanh_grad(const ReferenceCall& call) {
  reference_pointwise_grad(call, [](auto dy, auto y) { return dy * (1 - y * y); });
}

}  // namespace

void reference_tanh(KernelTable& table) {
  table.add("tanh", reference_kernel<tanh_of>);
  table.add("tanh_grad", reference_kernel<tanh_grad>);
}

}  // namespace outsize
