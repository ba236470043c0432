#include "ops/cuda/resample.h"
#include "ops/upsample/windows.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  return make_resample<Forward>(call, storage, upsample_windows(call.site));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_resample<Backward>(call, storage, upsample_gradient_windows(call.site));
}

}  // namespace

void cuda_upsample(KernelTable& table) {
  table.add("upsample", make_forward);
  table.add("upsample_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
