#include "ops/adaptive_avg_pool/windows.h"
#include "ops/reference_resample.h"
#include "ops/registry.h"

namespace outsize {
namespace {

void adaptive_avg_pool(const ReferenceCall& call) { reference_resample(call, adaptive_avg_pool_windows(call.site())); }
void adaptive_avg_pool_grad(const ReferenceCall& call) {
  reference_resample_grad(call, adaptive_avg_pool_gradient_windows(call.site()));
}

}  // namespace

void reference_adaptive_avg_pool(KernelTable& table) {
  table.add("adaptive_avg_pool", reference_kernel<adaptive_avg_pool>);
  table.add("adaptive_avg_pool_grad", reference_kernel<adaptive_avg_pool_grad>);
}

}  // namespace outsize
