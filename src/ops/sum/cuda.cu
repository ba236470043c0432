#include "ops/cuda/sums.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

std::unique_ptr<Kernel> make_sum(const Call& call, const StorageRule& storage) {
  return make_sums(call, storage, reduction_by_axes(call.site), 1);
}

// A call on a part of x contributes its share of the mean of all.
std::unique_ptr<Kernel> make_mean(const Call& call, const StorageRule& storage) {
  const Reduction reduction = reduction_by_axes(call.site);
  return make_sums(call, storage, reduction, 1 / static_cast<double>(reduction.terms()));
}

}  // namespace

void cuda_sum(KernelTable& table) {
  table.add("sum", make_sum);
  table.add("mean", make_mean);
}

}  // namespace outsize::OUTSIZE_PLACE
