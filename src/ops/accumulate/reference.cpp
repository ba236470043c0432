#include "ops/reference_support.h"

namespace outsize {
namespace {

void accumulate(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto sum = call.in<T>(0);
    const auto grad = call.in<T>(1);
    const auto next = call.out<T>(0);
    const bool fresh = call.site().integer("fresh") != 0;
    next.for_each([&](const Dims& at) { next[at] = fresh ? grad[at] : sum[at] + grad[at]; });
    next.clear_padding();
  });
}

}  // namespace

void reference_accumulate(KernelTable& table) { table.add("accumulate", reference_kernel<accumulate>); }

}  // namespace outsize
