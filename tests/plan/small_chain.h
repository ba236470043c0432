#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/chain/chain.h"

namespace outsize {

// Random numbers that are the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int between(int lo, int hi) { return lo + static_cast<int>(engine_() % static_cast<std::uint64_t>(hi - lo + 1)); }
  double uniform(double lo, double hi) { return lo + (hi - lo) * static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

// Small whole sizes, and times in whole units of what the link needs for a byte.
struct SmallChain {
  Chain chain;
  double bandwidth = 1;
  std::vector<int> forward, backward;  // in units of 1/bandwidth seconds

  int layers() const { return static_cast<int>(forward.size()); }
  // The most that an op needs for itself: with less nothing runs.
  int least_memory() const {
    std::int64_t least = 1;
    for (std::size_t i = 0; i < forward.size(); ++i) {
      least = std::max({least, forward_bytes(chain, i), backward_bytes(chain, i)});
    }
    return static_cast<int>(least);
  }
  double seconds(int units) const { return units / bandwidth; }
};

inline SmallChain random_chain(Random& random, int layers, int most = 3) {
  SmallChain small;
  small.bandwidth = 1 << random.between(0, 2);
  for (int i = 0; i < layers; ++i) {
    small.forward.push_back(random.between(0, 3));
    small.backward.push_back(random.between(0, 3));
    small.chain.forward.push_back(small.seconds(small.forward.back()));
    small.chain.backward.push_back(small.seconds(small.backward.back()));
    small.chain.forward_extra.push_back(random.between(0, 2) * random.between(0, 1));
    small.chain.backward_extra.push_back(random.between(0, 2) * random.between(0, 1));
  }
  for (int i = 0; i <= layers; ++i) {
    small.chain.x.push_back(random.between(0, most));
    small.chain.y.push_back(random.between(0, 2));
  }
  return small;
}

inline std::vector<bool> subset(int layers, unsigned mask) {
  std::vector<bool> result;
  for (int i = 0; i < layers; ++i) result.push_back((mask >> i & 1) != 0);
  return result;
}

}  // namespace outsize
