#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace outsize {

// Philox4x32-10 (Salmon et al., SC'11): random numbers as a pure function of a counter and a key, so that any element of any
// stream can be drawn at any time, in any order.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// A stream of random numbers that belongs to a seed and a name ("conv1.weight"); element i is the same whenever it is drawn.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, std::string_view name)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {
    for (char letter : name) stream_ = (stream_ ^ static_cast<unsigned char>(letter)) * 0x100000001B3;  // FNV-1a
  }

  // Four independent 32-bit words, the block `index` of the stream.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(stream_),
                   static_cast<std::uint32_t>(stream_ >> 32)},
                  key_);
  }
  // Element `index`, uniform in (0, 1): never exactly 0 or 1.
  constexpr double uniform(std::uint64_t index) const { return to_unit(block(index / 4)[index % 4]); }
  // Element `index`, uniform over [0, limit).
  constexpr std::int64_t below(std::uint64_t index, std::int64_t limit) const {
    const auto words = block(index / 2);
    const std::uint64_t wide = words[index % 2 * 2] | std::uint64_t{words[index % 2 * 2 + 1]} << 32;
    return static_cast<std::int64_t>(wide % static_cast<std::uint64_t>(limit));
  }
  // Elements 2·pair and 2·pair + 1 of the standard normal distribution (Box and Muller).
  std::array<double, 2> normal_pair(std::uint64_t pair) const {
    const auto words = block(pair / 2);
    const double radius = std::sqrt(-2 * std::log(to_unit(words[pair % 2 * 2])));
    const double angle = 2 * std::numbers::pi * to_unit(words[pair % 2 * 2 + 1]);
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  static constexpr double to_unit(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_ = 0xCBF29CE484222325;
};

}  // namespace outsize
