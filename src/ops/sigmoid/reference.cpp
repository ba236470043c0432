#include <cmath>

#include "ops/reference_pointwise.h"

namespace outsize {
namespace {

void sigmoid(const ReferenceCall& call) {
  reference_pointwise(call, [](auto x) { return 1 / (1 + std::exp(-x)); });
}

void sigmoid_grad(const ReferenceCall& call) {
  reference_pointwise_grad(call, [](auto dy, auto y) { return dy * y * (1 - y); });
}

}  // namespace

void reference_sigmoid(KernelTable& table) {
  table.add("sigmoid", reference_kernel<sigmoid>);
  table.add("sigmoid_grad", reference_kernel<sigmoid_grad>);
}

}  // namespace outsize
