#include "backend/cuda/cuda_host.h"

#include "backend/f32_only.h"
#include "backend/host_memory.h"
#include "ops/cuda/memory.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class CudaHost final : public HostBackend {
 public:
  CudaHost() : HostBackend(cuda_host_kernels(), StorageRule{.channels_last = true}, 1, cuda_host_alternatives()) {}
  bool supports(DType dtype) const override { return dtype != DType::f64; }
  using HostBackend::kernel;
  std::shared_ptr<const Kernel> kernel(const Call& call, Lane lane, std::string_view name) override {
    expect_f32(call, this->name());
    return HostBackend::kernel(call, lane, name);
  }
  void copy(Lane lane, const CopyPlan& plan, std::int64_t element_bytes, const std::byte* from, std::byte* to) override {
    if (lane != Lane::compute) return HostBackend::copy(lane, plan, element_bytes, from, to);
    emulated::copy_box(plan, element_bytes, from, to, nullptr);
  }
  void combine(Lane, Combine rule, const CopyPlan& plan, DType dtype, const std::byte* from, std::byte* to) override {
    emulated::combine_box(rule, plan, dtype, from, to, nullptr);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_host_backend() { return std::make_unique<CudaHost>(); }

}  // namespace outsize
