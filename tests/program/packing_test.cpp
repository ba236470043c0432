#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "packing_cases.h"
#include "packing_checks.h"
#include "program/offsets.h"
#include "program/packing/search.h"

namespace outsize {
namespace {

constexpr std::int64_t kUnit = 256;

// Whether the lifetimes from `k` on fit below a height of so many units beside those before, which have their offsets: every
// multiple of the unit is tried.
bool fit_below(const std::vector<Lifetime>& lives, std::int64_t height, std::vector<std::int64_t>& offsets, std::size_t k = 0) {
  if (k == lives.size()) return true;
  for (std::int64_t offset = 0; offset + lives[k].bytes <= height * kUnit; offset += kUnit) {
    bool free = true;
    for (std::size_t other = 0; other < k && free; ++other)
      free = lives[k].first > lives[other].last || lives[other].first > lives[k].last ||
             offset >= offsets[other] + lives[other].bytes || offsets[other] >= offset + lives[k].bytes;
    if (!free) continue;
    offsets[k] = offset;
    if (fit_below(lives, height, offsets, k + 1)) return true;
  }
  return false;
}

TEST(PackingSearch, FindsWhatThereIsAndRefutesTheRest) {
  Random random(1);
  constexpr std::int64_t kHeight = 5, kInstants = 10;
  int refuted = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    // Lifetimes that share their instants with no more than the height holds, as many as 60 tries give.
    std::vector<Lifetime> lives;
    std::vector<std::int64_t> sums(kInstants);
    for (int k = 0; k < 60; ++k) {
      const std::int64_t first = random.between(0, kInstants - 1), last = std::min(kInstants - 1, first + random.between(1, 2));
      const std::int64_t units = random.between(1, 3);
      if (*std::max_element(sums.begin() + first, sums.begin() + last + 1) + units > kHeight) continue;
      for (std::int64_t instant = first; instant <= last; ++instant) sums[static_cast<std::size_t>(instant)] += units;
      lives.push_back({kUnit * units, first, last});
    }
    const Instants instants = instants_of(lives);
    PackingSearch search(lives, instants);
    ASSERT_TRUE(search.is_possible());
    std::vector<std::int64_t> any(lives.size());
    for (const std::int64_t height : {kHeight, kHeight + 1}) {
      const bool fits = fit_below(lives, height, any);
      refuted += !fits;
      const std::optional<Offsets> offsets = search.find(height * kUnit, 1'000'000);
      ASSERT_EQ(offsets.has_value(), fits) << "trial " << trial;
      if (!offsets) continue;
      const Packing packing{{offsets->begin(), offsets->end()}, top_of(lives, *offsets), 0};
      EXPECT_LE(packing.peak, height * kUnit);
      expect_valid(lives, packing);
    }
    EXPECT_LT(search.looks(), 1'000'000) << "given up instead of refuted, trial " << trial;
  }
  EXPECT_GE(refuted, 5);
}

//   instant:  0  1  2  3
//   a = 2     x  x
//   b = 1        x  x  x
//   c = 2           x  x
//   d = 1     x  x  x         live 3, 4, 4, 3
TEST(PackingSearch, RefutesAndFindsByHand) {
  const std::vector<Lifetime> lives{{512, 0, 1}, {256, 1, 3}, {512, 2, 3}, {256, 0, 2}};
  const Instants instants = instants_of(lives);
  PackingSearch search(lives, instants);
  EXPECT_TRUE(search.find(1024, 1000));  // d at the bottom, a and c on it, b at the top
  EXPECT_FALSE(search.find(1024 - kUnit, 1000));
}

TEST(Packing, FillsArenasThatWereFull) {
  for (const std::int64_t holes : {1'000'000, 30, 8})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Random random(seed);
      const std::vector<Lifetime> lives = full_arena(random, 1024, 60, holes);
      const Packing packing = pack(lives, 1024 * 1024, Effort::thorough);
      expect_valid(lives, packing);
      EXPECT_LE(packing.peak, 1024 * 1024) << "seed " << seed << ", one hole in " << holes;
    }
}

TEST(Packing, TransformersOfManyThousandLifetimes) {
  for (const std::int64_t recomputed : {2, 4, 1000}) {
    Random random(static_cast<std::uint64_t>(recomputed));
    const std::vector<Lifetime> lives = transformer_step(random, 160, recomputed);
    ASSERT_GT(lives.size(), 17'000u);
    const Packing packing = pack(lives);
    expect_valid_by_sweep(lives, packing);
    EXPECT_LE(excess_percent(lives, packing), 0.5) << "one in " << recomputed << " recomputed";
  }
}

// What is wanted counts to the byte, however near the lower bound it is.
TEST(Packing, WantedHeightIsTakenExactly) {
  Random random(0);
  const std::vector<Lifetime> lives = full_arena(random, 1024, 40, 1'000'000);
  EXPECT_EQ(largest_live_sum(lives), 1024 * 1024);
  EXPECT_LE(pack(lives, 1024 * 1024, Effort::thorough).peak, 1024 * 1024);
}

TEST(Packing, LooksAreBounded) {
  Random random(3);
  const std::vector<Lifetime> lives = full_arena(random, 4096, 400, 1'000'000);
  const Packing quick = pack(lives, 4096 * 1024, Effort::quick);
  EXPECT_LT(quick.looks, 3 * static_cast<std::int64_t>(Effort::quick));
  expect_valid(lives, quick);
}

TEST(Packing, HundredsOfThousandsOfLifetimes) {
  std::vector<Lifetime> lives;
  Random random(5);
  for (std::int64_t i = 0; i < 400'000; ++i) {
    const std::int64_t first = random.between(0, 800'000);
    lives.push_back({256 * random.between(1, 4000), first, first + random.between(0, random.one_in(100) ? 5000 : 50)});
  }
  const Packing packing = pack(lives, 0, Effort::thorough);
  expect_valid_by_sweep(lives, packing);
  EXPECT_LT(packing.looks, 100 * std::ssize(lives));
}

std::vector<Lifetime> read_lifetimes(const std::filesystem::path& path, std::int64_t unit) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "id,lower,upper,size");
  std::vector<Lifetime> lives;
  char comma = 0;
  for (std::int64_t id = 0, lower = 0, upper = 0, size = 0; in >> id >> comma >> lower >> comma >> upper >> comma >> size;)
    lives.push_back({size * unit, lower, upper - 1});
  return lives;
}

const std::filesystem::path kPublicCases = std::filesystem::path(OUTSIZE_SHARED_DATA) / "packing";

// The challenging cases of google/minimalloc.
TEST(Packing, PublicHardCasesAreWithinTheirCapacity) {
  if (!std::filesystem::exists(kPublicCases)) GTEST_SKIP() << kPublicCases << " is absent";
  for (const char* name : {"A", "C", "E", "G", "I", "K"}) {
    const std::vector<Lifetime> lives = read_lifetimes(kPublicCases / (std::string(name) + ".1048576.csv"), 1);
    ASSERT_GT(lives.size(), 100u) << name;
    const Packing packing = pack(lives, 1048576, Effort::thorough);
    expect_valid(lives, packing);
    EXPECT_LE(packing.peak, 1048576) << name;
  }
}

// Of cappadokes/idealloc, in units that keep every size a multiple of the alignment.
TEST(Packing, PublicLargeCasesAreAtTheirLiveSum) {
  if (!std::filesystem::exists(kPublicCases)) GTEST_SKIP() << kPublicCases << " is absent";
  for (const char* name : {"somas-resnet50", "iopddl-S_1"}) {
    const std::vector<Lifetime> lives = read_lifetimes(kPublicCases / (std::string(name) + ".csv"), kAlignment);
    ASSERT_GT(lives.size(), 1000u) << name;
    const Packing packing = pack(lives);
    expect_valid_by_sweep(lives, packing);
    EXPECT_LE(excess_percent(lives, packing), 0.5) << name;
  }
}

}  // namespace
}  // namespace outsize
