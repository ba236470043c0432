#include "ops/reference_support.h"

namespace outsize {
namespace {

void relu(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto y = call.out<T>(0);
    // Written so that NaN stays NaN.
    y.for_each([&](const Dims& at) { y[at] = x[at] < 0 ? T{0} : x[at]; });
    y.clear_padding();
  });
}

void relu_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto dy = call.in<T>(0);
    const auto y = call.in<T>(1);
    const bool has_more = call.has_in(2);
    const auto more = call.in<T>(has_more ? 2 : 0);
    const auto dx = call.out<T>(0);
    // Where y is NaN the gradient passes, as in PyTorch.
    dx.for_each([&](const Dims& at) { dx[at] = y[at] <= 0 ? T{0} : has_more ? dy[at] + more[at] : dy[at]; });
    dx.clear_padding();
  });
}

}  // namespace

void reference_relu(KernelTable& table) {
  table.add("relu", reference_kernel<relu>);
  table.add("relu_grad", reference_kernel<relu_grad>);
}

}  // namespace outsize
