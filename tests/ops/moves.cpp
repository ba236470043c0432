#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ops/cuda/move.h"

// Moves of the card's kernels as loops of the host, beside plain loops: every form of a kernel, and launches that are split.
namespace outsize::test {
namespace {

using emulated::Move;
using emulated::MoveAxis;
using emulated::Word;
using Random = std::mt19937_64;

constexpr Word kUntouched = 0xFFFFFFFF;
constexpr Word kValue = 0xFFC00000;

// A move between two dense pieces: axis i has extents[i] steps in the target, whose memory has the axes in their order, and `held`
// of them in the source, whose memory has them in the order `source`.
struct Case {
  std::vector<std::int64_t> extents;
  std::vector<std::size_t> source;
  std::vector<Interval> held;

  Move move() const {
    Move result;
    std::vector<MoveAxis> axes(extents.size());
    std::int64_t step = 1;
    for (std::size_t i = extents.size(); i-- > 0; step *= extents[i]) axes[i] = {extents[i], 0, step, held[i]};
    step = 1;
    for (std::size_t n = extents.size(); n-- > 0; step *= held[source[n]].size()) axes[source[n]].from = step;
    for (const MoveAxis& axis : axes) result.add(axis);
    return result;
  }
  std::int64_t held_words() const {
    std::int64_t words = 1;
    for (const Interval& range : held) words *= range.size();
    return words;
  }
};

// What the target must hold, element by element.
std::vector<Word> plain_loops(const Move& move, const std::vector<Word>& from) {
  std::vector<Word> to(static_cast<std::size_t>(move.elements()), kUntouched);
  for (std::int64_t n = 0; n < move.elements(); ++n) {
    std::int64_t rest = n, source = 0, target = 0;
    bool held = true;
    for (int i = 0; i < move.count; ++i) {
      const std::int64_t step = rest % move[i].extent;
      rest /= move[i].extent;
      source += (step - move[i].held.lo) * move[i].from;
      target += step * move[i].to;
      held = held && step >= move[i].held.lo && step < move[i].held.hi;
    }
    to[static_cast<std::size_t>(target)] = held ? from[static_cast<std::size_t>(source)] : kValue;
  }
  return to;
}

// `shift`: words by which both pieces miss the alignment of vectors.
void expect_moved(const Case& moved, std::int64_t most, std::size_t shift) {
  const Move move = moved.move();
  std::vector<Word> from(static_cast<std::size_t>(moved.held_words()));
  std::iota(from.begin(), from.end(), Word{1});
  const std::vector<Word> expected = plain_loops(move, from);
  std::vector<emulated::Vector<Word, 4>> source(from.size() / 4 + 2), target(expected.size() / 4 + 2);
  Word* const source_words = source[0].of + shift;
  Word* const target_words = target[0].of + shift;
  std::ranges::copy(from, source_words);
  for (const bool backwards : {false, true}) {
    std::fill_n(target[0].of, target.size() * 4, kUntouched);
    emulated::emulation_runs_backwards() = backwards;
    emulated::run_move(source_words, target_words, move, kValue, nullptr, most);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), target_words));
    EXPECT_EQ(std::count(target[0].of, target[0].of + target.size() * 4, kUntouched),
              static_cast<std::ptrdiff_t>(target.size() * 4 - expected.size()));
  }
}

TEST(Moves, EqualPlainLoops) {
  Random random(5);
  const auto some = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int n = 0; n < 1000; ++n) {
    SCOPED_TRACE(n);
    Case moved;
    const auto rank = static_cast<std::size_t>(some(1, 4));
    const std::int64_t multiple = some(0, 1) == 0 ? 4 : 1;
    for (std::size_t i = 0; i < rank; ++i) moved.extents.push_back(multiple * some(1, i == 0 ? 40 / multiple : 12 / multiple));
    moved.source.resize(rank);
    std::iota(moved.source.begin(), moved.source.end(), 0u);
    if (some(0, 2) != 0) std::shuffle(moved.source.begin(), moved.source.end(), random);
    const bool pads = some(0, 2) == 0;
    for (const std::int64_t extent : moved.extents) {
      const std::int64_t lo = pads ? some(0, extent / multiple) * multiple : 0;
      moved.held.push_back({lo, pads ? some(lo / multiple, extent / multiple) * multiple : extent});
    }
    expect_moved(moved, some(0, 2) == 0 ? 50 : emulated::kMostPositions, some(0, 4) == 0 ? 1 : 0);
  }
}

// Tiles that are whole, cut off, narrow on either side, and below each other.
TEST(Moves, TurnTiles) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{64, 32},
                                      {65, 33},
                                      {200, 70},
                                      {3, 1500},
                                      {1500, 3},
                                      {1, 300},
                                      {2, 5000},
                                      {256, 1},
                                      {49, 2048},
                                      {7, 37}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    expect_moved({{rows, columns}, {1, 0}, {{0, rows}, {0, columns}}}, emulated::kMostPositions, 0);
    expect_moved({{3, rows, 2, columns}, {0, 3, 1, 2}, {{0, 3}, {0, rows}, {0, 2}, {0, columns}}}, emulated::kMostPositions, 0);
    expect_moved({{rows, columns}, {1, 0}, {{0, rows}, {0, columns}}}, 500, 1);
  }
}

}  // namespace
}  // namespace outsize::test
