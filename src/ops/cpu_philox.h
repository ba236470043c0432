#pragma once

#include <array>

#include "base/philox.h"
#include "ops/cpu_support.h"

namespace outsize {

// philox() of base/philox.h as a body for loops over many counters, which the compiler vectorizes: it neither branches nor calls.
OUTSIZE_INLINE std::array<std::uint32_t, 4> philox_lane(std::uint64_t block, std::uint32_t stream, std::uint32_t step,
                                                        std::uint32_t key0, std::uint32_t key1) {
  std::uint32_t c0 = static_cast<std::uint32_t>(block), c1 = static_cast<std::uint32_t>(block >> 32), c2 = stream, c3 = step;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(a);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

}  // namespace outsize
