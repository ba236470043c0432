#include "ops/cpu_reduction.h"

namespace outsize {
namespace {

std::unique_ptr<Kernel> make_sum(const Call& call, const StorageRule& storage) {
  return make_reduction(call, storage, reduction_by_axes(call.site), 1);
}

std::unique_ptr<Kernel> make_mean(const Call& call, const StorageRule& storage) {
  const Reduction reduction = reduction_by_axes(call.site);
  return make_reduction(call, storage, reduction, 1 / static_cast<double>(reduction.terms()));
}

}  // namespace

void cpu_sum(KernelTable& table) {
  table.add("sum", make_sum);
  table.add("mean", make_mean);
}

}  // namespace outsize
