#pragma once

#include "ops/cuda/block.h"

namespace outsize::OUTSIZE_PLACE {

// Four words of a stream of random numbers.
struct PhiloxWords {
  std::uint32_t of[4];
};

// philox() of base/philox.h on the card: the words of block `block` of a stream at a step.
inline OUTSIZE_BOTH PhiloxWords philox_words(std::uint64_t block, std::uint32_t stream, std::uint32_t step, std::uint32_t key0,
                                             std::uint32_t key1) {
  PhiloxWords words{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, step}};
  OUTSIZE_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * words.of[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * words.of[2];
    words = {{static_cast<std::uint32_t>(b >> 32) ^ words.of[1] ^ key0, static_cast<std::uint32_t>(b),
              static_cast<std::uint32_t>(a >> 32) ^ words.of[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return words;
}

// What dropout multiplies elements by: 0, or 1 / (1 − p). `key` lies on the card: two words of the seed, the step, one reserved.
struct DropoutFactors {
  const std::uint32_t* key = nullptr;  // null: nothing is dropped
  std::uint32_t stream = 0;
  std::uint32_t threshold = 0;  // elements whose word is below are dropped
  float kept = 1;

  // Of V elements that follow each other in the value, from `place` on.
  template <int V>
  OUTSIZE_BOTH Vector<float, V> factors(std::uint64_t place) const {
    Vector<float, V> result;
    const auto first = static_cast<int>(place % 4);
    const PhiloxWords words = words_of(place / 4);
    if (V == 4 && first == 0) {
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) result.of[j] = factor(words.of[j]);
      return result;
    }
    const PhiloxWords next = first + V > 4 ? words_of(place / 4 + 1) : words;
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      const int which = (first + j) % 4;
      result.of[j] = factor(first + j < 4 ? select(words, which) : select(next, which));
    }
    return result;
  }
  // A bit for each of four elements, from the lowest on, that says whether it is kept; `place` is a multiple of 4.
  OUTSIZE_BOTH std::uint32_t kept_of_four(std::uint64_t place) const {
    const PhiloxWords words = words_of(place / 4);
    std::uint32_t bits = 0;
    OUTSIZE_UNROLL
    for (int j = 0; j < 4; ++j) bits |= (words.of[j] >= threshold ? 1u : 0u) << j;
    return bits;
  }

 private:
  OUTSIZE_BOTH PhiloxWords words_of(std::uint64_t block) const { return philox_words(block, stream, key[2], key[0], key[1]); }
  // Without an address, so that the words stay in registers.
  OUTSIZE_BOTH static std::uint32_t select(const PhiloxWords& words, int which) {
    return which < 2 ? (which == 0 ? words.of[0] : words.of[1]) : (which == 2 ? words.of[2] : words.of[3]);
  }
  OUTSIZE_BOTH float factor(std::uint32_t word) const { return word >= threshold ? kept : 0.0f; }
};

}  // namespace outsize::OUTSIZE_PLACE
