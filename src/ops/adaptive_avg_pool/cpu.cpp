#include "ops/adaptive_avg_pool/windows.h"
#include "ops/cpu_resample.h"
#include "ops/registry.h"

namespace outsize {
namespace {

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  return make_resample<Forward>(call, storage, adaptive_avg_pool_windows(call.site));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_resample<Backward>(call, storage, adaptive_avg_pool_gradient_windows(call.site));
}

}  // namespace

void cpu_adaptive_avg_pool(KernelTable& table) {
  table.add("adaptive_avg_pool", make_forward);
  table.add("adaptive_avg_pool_grad", make_grad);
}

}  // namespace outsize
