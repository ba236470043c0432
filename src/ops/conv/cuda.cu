#include "ops/conv/cuda_convolution.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

using Make = std::unique_ptr<Kernel> (*)(const Call& call, const StorageRule& storage, bool tf32);

template <Make make, bool kTf32>
std::unique_ptr<Kernel> factory(const Call& call, const StorageRule& storage) {
  return make(call, storage, kTf32);
}

template <Make make>
void add(KernelTable& table, std::string_view kind) {
  table.add(kind, table.tf32 ? factory<make, true> : factory<make, false>);
}

}  // namespace

void cuda_conv(KernelTable& table) {
  for (const std::string_view kind : {"conv2d", "conv3d"}) add<make_convolution>(table, kind);
  for (const std::string_view kind : {"conv2d_grad_data", "conv3d_grad_data"}) add<make_spread>(table, kind);
  for (const std::string_view kind : {"conv2d_grad_weight", "conv3d_grad_weight"}) add<make_convolution_weights>(table, kind);
}

}  // namespace outsize::OUTSIZE_PLACE
