#include "ops/reference_reduction.h"

namespace outsize {
namespace {

void sum_to(const ReferenceCall& call) { reference_reduction(call, reduction_to(call.in_type(0), call.out_type(0)), 1); }

}  // namespace

void reference_sum_to(KernelTable& table) { table.add("sum_to", reference_kernel<sum_to>); }

}  // namespace outsize
