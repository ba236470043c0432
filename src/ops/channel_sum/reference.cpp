#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

void channel_sum(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    y.clear();
    x.for_each([&](const Dims& p) { y(p[1]) += x[p]; });
  });
}

}  // namespace

void reference_channel_sum(KernelTable& table) { table.add("channel_sum", reference_kernel<channel_sum>); }

}  // namespace outsize
