#include <gtest/gtest.h>

#include "base/philox.h"
#include "base/sha256.h"

namespace outsize {
namespace {

std::string sha256(const std::string& text, std::size_t part = 0) {
  Sha256 hash;
  const auto bytes = std::as_bytes(std::span(text));
  if (part == 0) part = std::max<std::size_t>(text.size(), 1);
  for (std::size_t i = 0; i < bytes.size(); i += part) hash.update(bytes.subspan(i, std::min(part, bytes.size() - i)));
  return hash.hex_digest();
}

// FIPS 180-4's own examples.
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The padding takes one block or two, depending on the length: all lengths around a block, in parts of every size.
TEST(Sha256, PartsDoNotMatter) {
  for (std::size_t length : {54U, 55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U}) {
    const std::string text(length, 'x');
    for (std::size_t part : {1U, 7U, 64U, 100U}) EXPECT_EQ(sha256(text, part), sha256(text)) << length << " by " << part;
  }
}

// The known-answer vectors of Random123 for philox4x32 with ten rounds.
TEST(Philox, KnownVectors) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, BelongsToSeedAndName) {
  const RandomStream stream(1, "conv1.weight");
  EXPECT_EQ(stream.block(5), RandomStream(1, "conv1.weight").block(5));
  EXPECT_NE(stream.block(5), RandomStream(2, "conv1.weight").block(5));
  EXPECT_NE(stream.block(5), RandomStream(1, "conv2.weight").block(5));
}

// Of n standard normal draws the mean lies within 5/√n and the variance within 5·√(2/n), but for one run in millions.
TEST(RandomStream, NormalMoments) {
  const RandomStream stream(3, "moments");
  constexpr std::uint64_t kPairs = 50'000;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < kPairs; ++i)
    for (double value : stream.normal_pair(i)) {
      sum += value;
      squares += value * value;
    }
  const double n = 2.0 * kPairs;
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
}

}  // namespace
}  // namespace outsize
