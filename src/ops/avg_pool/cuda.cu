#include "ops/avg_pool/windows.h"
#include "ops/cuda/resample.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  return make_resample<Forward>(call, storage, avg_pool_windows(call.site));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_resample<Backward>(call, storage, avg_pool_gradient_windows(call.site));
}

}  // namespace

void cuda_avg_pool(KernelTable& table) {
  table.add("avg_pool", make_forward);
  table.add("avg_pool_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
