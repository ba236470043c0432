// The offloading paper's chain beside the graph it stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/swap/swap_chain.h"
#include "run/trainer.h"

namespace outsize {
namespace {

class Offload : public testing::TestWithParam<const char*> {
 protected:
  static StepGraph training_of(const char* model) {
    register_ops();
    return make_training_graph(build_model(model, {.batch = 8}), {});
  }
  StepGraph training_ = training_of(GetParam());
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 2);
  Profile profile_{find_device("v100-pcie-16"), {}};
};

TEST_P(Offload, TheChainHoldsWhatTheGraphHoldsAndTakesAsLong) {
  const SwapChain of = swap_chain_of(
      {.graph = training_.graph, .profile = profile_, .storage = backend_->storage(), .workspace = [this](const Call& call) {
         return backend_->kernel(call)->workspace_bytes();
       }});
  check_chain(of.chain);
  const std::vector<std::int64_t> bytes = of.lives.bytes();
  EXPECT_EQ(peak_bytes(of.chain) + of.fixed, *std::max_element(bytes.begin(), bytes.end()));
  EXPECT_NEAR(compute_seconds(of.chain) / std::accumulate(of.lives.seconds.begin(), of.lives.seconds.end(), 0.0), 1, 1e-9);
  std::vector<int> seen(of.lives.all.size(), 0);
  for (std::size_t i = 0; i < of.swaps.size(); ++i) {
    std::int64_t sum = 0;
    for (const Swap& swap : of.swaps[i]) {
      ++seen[static_cast<std::size_t>(swap.life)];
      sum += of.lives.all[swap.life].bytes;
    }
    EXPECT_EQ(of.chain.x[i], sum);
  }
  for (std::size_t k = 0; k < seen.size(); ++k)
    EXPECT_EQ(seen[k], gap_of(of.lives, static_cast<std::int32_t>(k)).has_value() ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Offload, testing::Values("resnet50", "densenet121", "inception_v3"));

}  // namespace
}  // namespace outsize
