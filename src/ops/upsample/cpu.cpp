#include "ops/cpu_resample.h"
#include "ops/registry.h"
#include "ops/upsample/windows.h"

namespace outsize {
namespace {

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  return make_resample<Forward>(call, storage, upsample_windows(call.site));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_resample<Backward>(call, storage, upsample_gradient_windows(call.site));
}

}  // namespace

void cpu_upsample(KernelTable& table) {
  table.add("upsample", make_forward);
  table.add("upsample_grad", make_grad);
}

}  // namespace outsize
