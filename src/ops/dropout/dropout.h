#pragma once

#include <cmath>
#include <cstdint>

namespace outsize {

// An element is kept where its 32-bit word is at least this: word · 2⁻³² ≥ p. 2³² for a p so close to 1 that nothing would be.
inline std::uint64_t dropout_threshold(double p) { return static_cast<std::uint64_t>(std::ceil(p * 0x1p32)); }

}  // namespace outsize
