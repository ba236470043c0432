#include "ops/conv/cuda_convolution.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

template <bool kTf32>
std::unique_ptr<Kernel> factory(const Call& call, const StorageRule& storage) {
  return make_spread(call, storage, kTf32);
}

}  // namespace

void cuda_conv_transpose(KernelTable& table) {
  for (const std::string_view kind : {"conv_transpose2d", "conv_transpose3d"})
    table.add(kind, table.tf32 ? factory<true> : factory<false>);
}

}  // namespace outsize::OUTSIZE_PLACE
