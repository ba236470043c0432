#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/alignment.h"
#include "program/packing/lifetime.h"

namespace outsize {

struct Packing {
  std::vector<std::int64_t> offsets;  // one a lifetime, multiples of kAlignment
  std::int64_t peak = 0;              // the highest offset + bytes
  std::int64_t looks = 0;             // that it took
};

// How long a low packing is sought, in looks at blocks and sections, of which a hundred million take some 0.1 seconds: quick while
// plans are compared, steady and patient for a plan that would be taken if it fitted, thorough for problems that are known to be
// hard.
enum class Effort : std::int64_t { quick = 60'000'000, steady = 250'000'000, patient = 600'000'000, thorough = 1'500'000'000 };

// The largest sum, over all instructions, of the bytes (each rounded up to the alignment) that are live there.
std::int64_t largest_live_sum(std::span<const Lifetime> lifetimes);

// Offsets such that no two lifetimes that share an instruction share a byte. Tries several orders, then searches as long as
// `effort` says, and returns the lowest peak, or the first that is no higher than `enough`. Pure and deterministic; for large n O(n
// log n) an order, but for moving gaps up.
Packing pack(std::span<const Lifetime> lifetimes, std::int64_t enough = 0, Effort effort = Effort::quick);

}  // namespace outsize
