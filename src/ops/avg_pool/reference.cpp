#include "ops/avg_pool/windows.h"
#include "ops/reference_resample.h"
#include "ops/registry.h"

namespace outsize {
namespace {

void avg_pool(const ReferenceCall& call) { reference_resample(call, avg_pool_windows(call.site())); }
void avg_pool_grad(const ReferenceCall& call) { reference_resample_grad(call, avg_pool_gradient_windows(call.site())); }

}  // namespace

void reference_avg_pool(KernelTable& table) {
  table.add("avg_pool", reference_kernel<avg_pool>);
  table.add("avg_pool_grad", reference_kernel<avg_pool_grad>);
}

}  // namespace outsize
