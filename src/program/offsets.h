#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/alignment.h"

namespace outsize {

// Bytes needed at the same place from instruction `first` to `last`, both inclusive.
struct Lifetime {
  std::int64_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct Packing {
  std::vector<std::int64_t> offsets;  // one a lifetime, multiples of kAlignment
  std::int64_t peak = 0;              // the highest offset + bytes
};

// The largest sum, over all instructions, of the bytes (each rounded up to the alignment) that are live there.
std::int64_t largest_live_sum(std::span<const Lifetime> lifetimes);

// Offsets such that no two lifetimes that share an instruction share a byte. Tries several orders and returns the lowest peak, or
// the first that is no higher than `enough`; pure, deterministic, and for large n O(n log n) an order, but for moving gaps up.
Packing pack(std::span<const Lifetime> lifetimes, std::int64_t enough = 0);

}  // namespace outsize
