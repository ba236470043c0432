#include "ops/reference_support.h"

namespace outsize {
namespace {

void add(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto a = call.in<T>(0);
    const auto b = call.in<T>(1);
    const auto y = call.out<T>(0);
    y.for_each([&](const Dims& at) { y[at] = a[at] + b[at]; });
    y.clear_padding();
  });
}

}  // namespace

void reference_add(KernelTable& table) { table.add("add", reference_kernel<add>); }

}  // namespace outsize
