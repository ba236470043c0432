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

using MakeAlternatives = std::vector<PreparedAlternative> (*)(const Call& call, const StorageRule& storage, bool tf32);

template <MakeAlternatives make, bool kTf32>
std::vector<PreparedAlternative> alternatives(const Call& call, const StorageRule& storage) {
  return make(call, storage, kTf32);
}

template <MakeAlternatives make>
void add(AlternativesTable& table, std::string_view kind, bool tf32) {
  table.add(kind, tf32 ? alternatives<make, true> : alternatives<make, false>);
}

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage, bool tf32) {
  return make_convolution(call, storage, tf32);
}
std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage, bool tf32) {
  return make_spread(call, storage, tf32);
}
std::unique_ptr<Kernel> make_weights(const Call& call, const StorageRule& storage, bool tf32) {
  return make_convolution_weights(call, storage, tf32);
}

}  // namespace

void cuda_conv(KernelTable& table) {
  for (const std::string_view kind : {"conv2d", "conv3d"}) add<make_forward>(table, kind);
  for (const std::string_view kind : {"conv2d_grad_data", "conv3d_grad_data"}) add<make_data>(table, kind);
  for (const std::string_view kind : {"conv2d_grad_weight", "conv3d_grad_weight"}) add<make_weights>(table, kind);
}

void cuda_conv_alternatives(AlternativesTable& table, bool tf32) {
  for (const std::string_view kind : {"conv2d", "conv3d"}) add<convolution_alternatives>(table, kind, tf32);
  for (const std::string_view kind : {"conv2d_grad_data", "conv3d_grad_data", "conv_transpose2d", "conv_transpose3d"})
    add<spread_alternatives>(table, kind, tf32);
  for (const std::string_view kind : {"conv2d_grad_weight", "conv3d_grad_weight"})
    add<convolution_weights_alternatives>(table, kind, tf32);
}

}  // namespace outsize::OUTSIZE_PLACE
