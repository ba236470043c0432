#include "ops/conv/cpu_convolution.h"
#include "ops/registry.h"

namespace outsize {
namespace {

std::unique_ptr<Kernel> make(const Call& call, const StorageRule& storage) {
  return make_conv_spread(call, storage, call.site.inputs() > 2);
}

}  // namespace

void cpu_conv_transpose(KernelTable& table) {
  table.add("conv_transpose2d", make);
  table.add("conv_transpose3d", make);
}

}  // namespace outsize
