#include "ops/conv/reference_loops.h"
#include "ops/conv_transpose/shape.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// y[n, c, o·s − p + t·d] += x[n, o] · weight[o, c, t], and the bias of c once
void conv_transpose(const ReferenceCall& call) {
  const ConvLoops loops{transposed_windows(call.site()), channels_of(call.site(), call.in_type(1).shape)};
  dispatch_conv(call.in_type(0).dtype, loops.windows.rank, [&]<class T, int R>() {
    const View<const T> x = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> y = call.out<T>(0);
    y.clear();
    if (call.has_in(2)) y.for_each([&](const Dims& p) { y[p] = call.in<T>(2)(p[1]); });
    if (!x.empty()) x.for_each([&](const Dims& p) { loops.scatter<R>(x, weight, y, p); });
  });
}

}  // namespace

void reference_conv_transpose(KernelTable& table) {
  table.add("conv_transpose2d", reference_kernel<conv_transpose>);
  table.add("conv_transpose3d", reference_kernel<conv_transpose>);
}

}  // namespace outsize
