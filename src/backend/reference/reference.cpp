#include "backend/reference/reference.h"

#include "backend/host_memory.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Reference final : public HostBackend {
 public:
  Reference() : HostBackend(reference_kernels(), StorageRule{.channel_block = 1}, 1) {}
  bool supports(DType) const override { return true; }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<Reference>(); }

}  // namespace outsize
