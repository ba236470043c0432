#include "backend/described.h"

#if OUTSIZE_WITH_CUDA
#include "ops/conv/cuda_convolution.h"
#include "ops/cuda/library/described.h"
#endif

namespace outsize {

#if OUTSIZE_WITH_CUDA
namespace {

class DescribedCard final : public Target {
 public:
  DescribedCard(Backend& kernels, std::string description, bool tf32)
      : kernels_(kernels), description_(std::move(description)), tf32_(tf32) {}

  StorageRule storage() const override { return kernels_.storage(); }
  using Target::workspace_bytes;
  std::int64_t workspace_bytes(const Call& call, std::string_view name) override {
    const std::optional<Alternative> planned = planned_for(call);
    if (!planned) return kernels_.workspace_bytes(call, name);
    if (!name.empty() && name != planned->name)
      user_error("op {}: the card has no kernel '{}' for it here; it has {}", call.site.op.name, name, planned->name);
    return planned->workspace_bytes;
  }
  std::vector<Alternative> alternatives(const Call& call) override {
    const std::optional<Alternative> planned = planned_for(call);
    return planned ? std::vector<Alternative>{*planned} : kernels_.alternatives(call);
  }

 private:
  std::optional<Alternative> planned_for(const Call& call) const { return card::described_convolution(call, tf32_, description_); }

  Backend& kernels_;
  std::string description_;
  bool tf32_;
};

}  // namespace

std::unique_ptr<Target> describe_card(Backend& kernels, std::string_view device, bool tf32) {
  std::string description = cudnn_description(device);
  if (description.empty() || cudnn_name() == "no cuDNN") return nullptr;
  return std::make_unique<DescribedCard>(kernels, std::move(description), tf32);
}
#else
std::unique_ptr<Target> describe_card(Backend&, std::string_view, bool) { return nullptr; }
#endif

}  // namespace outsize
