#include "ops/reference_broadcast.h"

namespace outsize {
namespace {

void expand(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto y = call.out<T>(0);
    y.for_each([&](const Dims& at) { y[at] = x[operand_position(call.in_type(0).shape, call.out_type(0).shape, at)]; });
    y.clear_padding();
  });
}

}  // namespace

void reference_expand(KernelTable& table) { table.add("expand", reference_kernel<expand>); }

}  // namespace outsize
