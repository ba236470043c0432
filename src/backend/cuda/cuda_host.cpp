#include "backend/cuda/cuda_host.h"

#include "backend/f32_only.h"
#include "backend/host_memory.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class CudaHost final : public HostBackend {
 public:
  CudaHost() : HostBackend(cuda_host_kernels(), StorageRule{.channels_last = true}, 1) {}
  bool supports(DType dtype) const override { return dtype != DType::f64; }
  std::shared_ptr<const Kernel> kernel(const Call& call) override {
    expect_f32(call, name());
    return HostBackend::kernel(call);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_host_backend() { return std::make_unique<CudaHost>(); }

}  // namespace outsize
