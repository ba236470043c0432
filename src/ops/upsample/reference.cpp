#include "ops/reference_resample.h"
#include "ops/registry.h"
#include "ops/upsample/windows.h"

namespace outsize {
namespace {

void upsample(const ReferenceCall& call) { reference_resample(call, upsample_windows(call.site())); }
void upsample_grad(const ReferenceCall& call) { reference_resample_grad(call, upsample_gradient_windows(call.site())); }

}  // namespace

void reference_upsample(KernelTable& table) {
  table.add("upsample", reference_kernel<upsample>);
  table.add("upsample_grad", reference_kernel<upsample_grad>);
}

}  // namespace outsize
