#include "ops/reference_reduction.h"

namespace outsize {
namespace {

void sum(const ReferenceCall& call) { reference_reduction(call, reduction_by_axes(call.site()), 1); }

// A call on a part of x contributes its share of the mean of all.
void mean(const ReferenceCall& call) {
  const Reduction reduction = reduction_by_axes(call.site());
  reference_reduction(call, reduction, 1 / static_cast<double>(reduction.terms()));
}

}  // namespace

void reference_sum(KernelTable& table) {
  table.add("sum", reference_kernel<sum>);
  table.add("mean", reference_kernel<mean>);
}

}  // namespace outsize
