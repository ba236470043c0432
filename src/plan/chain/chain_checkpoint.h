#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/chain/chain.h"

namespace outsize {

// Recomputation in the chain model: some x_i are dropped in forward and made again in backward.

struct ChainStep {
  enum class Kind : std::uint8_t {
    forward,   // F_i runs; x_{i+1} comes into memory
    backward,  // B_i runs; y_i comes into memory, x_{i+1} and y_{i+1} leave it
    drop,      // x_i leaves memory
  };
  Kind kind = Kind::forward;
  std::size_t i = 0;

  bool operator==(const ChainStep&) const = default;
};

struct ChainCost {
  double seconds = 0;
  std::int64_t peak_bytes = 0;
};

// What the steps cost, by going through them. Throws InternalError when a step needs what is not in memory, makes or drops what is
// (not) there, or B_L … B_0 do not all run in this order.
ChainCost chain_cost(const Chain& chain, const std::vector<ChainStep>& steps);

// Which of x_0 … x_{layers−1} forward keeps when the chain is cut into `segments` pieces that differ by at most one layer: the
// first of each. 1 ≤ segments ≤ layers.
std::vector<bool> periodic_checkpoints(std::size_t layers, std::size_t segments);
// The same with the whole number nearest to √layers of segments (Chen et al. 2016).
std::vector<bool> sqrt_checkpoints(std::size_t layers);

// Forward drops what is not kept, and backward makes it again a segment at a time from the nearest x that is. The last segment is
// kept whole, since backward begins with it. kept[0] holds.
std::vector<ChainStep> checkpoint_steps(const std::vector<bool>& kept);

// The steps with the least forward time that fit in `memory`: the dynamic programme for heterogeneous chains (Beaumont et al.,
// RR-9302), where B_i reads x_{i+1} too, in slots of memory/slots bytes. Sizes are rounded up; of what the programme finds for as
// much memory and more, the shortest that fits in bytes is taken. Optimal when slots = memory, among steps in which an x that
// outlives its forward op stays until its backward op has run. nullopt: nothing found fits. Time grows with layers³ · slots, memory
// with layers² · slots (0.3 GB for 340 layers and 500 slots).
std::optional<std::vector<ChainStep>> optimal_checkpoint_steps(const Chain& chain, std::int64_t memory, int slots);

}  // namespace outsize
