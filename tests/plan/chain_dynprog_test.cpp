#include "plan/chain/chain_dynprog.h"

#include <gtest/gtest.h>

#include <ctime>

#include "plan/chain/chain_offload.h"
#include "small_chain.h"

namespace outsize {
namespace {

constexpr std::int64_t MiB = 1 << 20;

// Like a residual network: four stages, sizes halve from one to the next, work is about equal. Or like a dense one: sizes grow
// within a stage, every other layer is cheap.
Chain network(Random& random, int layers, bool dense = false) {
  Chain chain;
  for (int i = 0; i <= layers; ++i) {
    const int stage = std::min(3, 4 * i / layers);
    const double within = 4.0 * i / layers - stage;
    const double noise = random.uniform(0.5, 1.5) * (dense ? 0.25 + within : 1);
    const std::int64_t bytes = static_cast<std::int64_t>(noise * static_cast<double>(64 * MiB >> stage));
    chain.x.push_back(bytes);
    chain.y.push_back(bytes);
    if (i == layers) break;
    const double seconds = random.uniform(0.5, 1.5) * (dense && i % 2 == 0 ? 0.001 : 0.008);
    chain.forward.push_back(seconds);
    chain.backward.push_back(2 * seconds);
    chain.forward_extra.push_back(random.between(0, 16) * MiB);
    chain.backward_extra.push_back(random.between(0, 32) * MiB);
  }
  return chain;
}

std::int64_t least_memory(const Chain& chain) {
  std::int64_t least = 0;
  for (std::size_t i = 0; i < chain.layers(); ++i) least = std::max({least, forward_bytes(chain, i), backward_bytes(chain, i)});
  return least;
}

TEST(ChainDynprog, coarse_slots_still_fit_in_bytes) {
  Random random(11);
  int found = 0;
  for (int n = 0; n < 300; ++n) {
    const Chain chain = network(random, random.between(2, 40));
    const double share = random.uniform(0.2, 1);
    const std::int64_t least = least_memory(chain);
    const std::int64_t memory = least + static_cast<std::int64_t>(share * static_cast<double>(peak_bytes(chain) - least));
    for (const int slots : {7, 50, 500}) {
      const double bandwidth = random.uniform(1e9, 2e10);
      const std::optional<std::vector<bool>> decisions = dynprog_offload(chain, memory, bandwidth, slots);
      if (!decisions) continue;
      ++found;
      const std::optional<double> seconds = interruptible_offload_seconds(chain, *decisions, memory, bandwidth);
      ASSERT_TRUE(seconds) << n << ", " << slots << " slots";
      ASSERT_GE(*seconds, fractional_offload_seconds(chain, memory, bandwidth).value() * (1 - 1e-12));
    }
  }
  EXPECT_GT(found, 500);
}

// Larger sizes than a search by unit steps can follow, and peaks in the middle: against every subset.
TEST(ChainDynprog, no_subset_is_shorter) {
  Random random(14);
  int differ_from_greedy = 0;
  for (int n = 0; n < 400; ++n) {
    const int layers = random.between(8, 12);
    SmallChain small = random_chain(random, layers, 40);
    for (double& seconds : small.chain.forward) seconds = random.between(0, 15) / small.bandwidth;
    for (double& seconds : small.chain.backward) seconds = random.between(0, 15) / small.bandwidth;
    for (std::int64_t& size : small.chain.y) size = random.between(0, 5);
    for (std::int64_t& size : small.chain.forward_extra) size = random.between(0, 3) == 0 ? random.between(0, 60) : 0;
    for (std::int64_t& size : small.chain.backward_extra) size = random.between(0, 3) == 0 ? random.between(0, 60) : 0;
    const int least = small.least_memory();
    const int memory = random.between(least, (least + std::max(least, static_cast<int>(peak_bytes(small.chain)))) / 2);
    std::optional<double> best;
    for (unsigned mask = 0; mask < 1u << layers; ++mask) {
      const std::optional<double> seconds =
          interruptible_offload_seconds(small.chain, subset(layers, mask), memory, small.bandwidth);
      if (seconds && (!best || *seconds < *best)) best = seconds;
    }
    const std::vector<bool> decisions = dynprog_offload(small.chain, memory, small.bandwidth, memory).value();
    ASSERT_DOUBLE_EQ(interruptible_offload_seconds(small.chain, decisions, memory, small.bandwidth).value(), best.value()) << n;
    const std::vector<bool> greedy = greedy_offload(small.chain, memory);
    differ_from_greedy += interruptible_offload_seconds(small.chain, greedy, memory, small.bandwidth).value() > *best;
  }
  EXPECT_GT(differ_from_greedy, 100);
}

// Where sizes are whole slots, rounding changes nothing.
TEST(ChainDynprog, slots_of_the_sizes_lose_nothing) {
  Random random(12);
  for (int n = 0; n < 200; ++n) {
    SmallChain small = random_chain(random, random.between(1, 14), 6);
    const int least = small.least_memory();
    const int memory = random.between(least, std::max(least, static_cast<int>(peak_bytes(small.chain))));
    const std::optional<std::vector<bool>> fine = dynprog_offload(small.chain, memory, small.bandwidth, memory);
    Chain large = small.chain;
    for (std::vector<std::int64_t>* sizes : {&large.x, &large.y, &large.forward_extra, &large.backward_extra}) {
      for (std::int64_t& size : *sizes) size *= MiB;
    }
    const double bandwidth = small.bandwidth * MiB;
    const std::optional<std::vector<bool>> coarse = dynprog_offload(large, memory * MiB, bandwidth, memory);
    ASSERT_TRUE(fine && coarse) << n;
    EXPECT_DOUBLE_EQ(interruptible_offload_seconds(large, *coarse, memory * MiB, bandwidth).value(),
                     interruptible_offload_seconds(small.chain, *fine, memory, small.bandwidth).value())
        << n;
  }
}

// Processor time on long chains, from little memory to much, with links around the one that carries what must leave just in time.
TEST(ChainDynprog, long_chains_are_quick) {
  for (const int layers : {52, 152, 340, 500}) {
    double most = 0;
    for (const bool dense : {false, true}) {
      Random random(13);
      const Chain chain = network(random, layers, dense);
      const std::int64_t least = least_memory(chain);
      const std::int64_t peak = peak_bytes(chain);
      for (const double share : {0.02, 0.1, 0.3, 0.5, 0.8}) {
        const std::int64_t memory = least + static_cast<std::int64_t>(share * static_cast<double>(peak - least));
        for (const double speed : {0.3, 0.7, 0.9, 1.0, 1.1, 1.5}) {
          const double bandwidth = speed * 2 * static_cast<double>(peak - memory) / compute_seconds(chain);
          const std::clock_t start = std::clock();
          const std::optional<std::vector<bool>> decisions = dynprog_offload(chain, memory, bandwidth, 500);
          const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
          most = std::max(most, seconds);
          ASSERT_TRUE(decisions) << layers;
          ASSERT_TRUE(interruptible_offload_seconds(chain, *decisions, memory, bandwidth)) << layers;
        }
      }
    }
    RecordProperty(std::to_string(layers), std::to_string(most));
#ifndef __SANITIZE_ADDRESS__
    EXPECT_LT(most, layers <= 152 ? 1 : 5) << layers;
#endif
  }
}

}  // namespace
}  // namespace outsize
