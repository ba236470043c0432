#pragma once

#include <cstdint>

namespace outsize {

// Pieces lie at multiples of so many bytes in the arena of their tier, and so do the parts that kernels cut their workspace into:
// all that vector loads and the libraries of cards ask for.
inline constexpr std::int64_t kAlignment = 256;

}  // namespace outsize
