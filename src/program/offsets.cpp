#include "program/offsets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <random>

#include "base/bytes.h"
#include "base/error.h"

namespace outsize {
namespace {

// The quadratic orders may look at this many placed blocks in all: some tens of milliseconds, and none of it past n ≈ 9,000.
constexpr std::int64_t kLooks = 40'000'000;
// Within a hundredth of the lower bound, searching on is worth an eighth of that; within a thousandth, nothing.
constexpr std::int64_t kFewLooks = kLooks / 8;
constexpr std::int64_t kGood = 100;
constexpr std::int64_t kGoodEnough = 1000;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

using Offsets = std::vector<std::int64_t>;
using Order = std::vector<std::int32_t>;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool share_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// 0 … n-1, sorted by `key` ascending; equal keys keep their order.
template <class Key>
Order sorted_by(std::size_t n, Key key) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return key(at(a)) < key(at(b)); });
  return order;
}

std::int64_t top_of(std::span<const Lifetime> blocks, const Offsets& offsets) {
  std::int64_t top = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) top = std::max(top, offsets[i] + blocks[i].bytes);
  return top;
}

// The free ranges of an unlimited arena, coalesced, found by address and by size. Sorted arrays: there are few of them as a rule,
// and even thousands are moved up sooner than a tree is rebalanced.
class FreeList {
 public:
  // Takes `bytes` from the smallest range that has them (the lowest of equals).
  std::int64_t take(std::int64_t bytes) {
    const auto found = std::lower_bound(by_size_.begin(), by_size_.end(), BySize{bytes, 0});
    const auto [size, offset] = *found;
    const auto range = at_or_above(offset);
    if (size == bytes) {
      by_size_.erase(found);
      by_offset_.erase(range);
    } else {
      resize({size, offset}, {size - bytes, offset + bytes});
      range->begin += bytes;
    }
    return offset;
  }

  void give(std::int64_t offset, std::int64_t bytes) {
    const std::int64_t end = offset + bytes;
    const auto next = at_or_above(offset);
    const auto previous = next == by_offset_.begin() ? by_offset_.end() : std::prev(next);
    const bool joins_next = next != by_offset_.end() && next->begin == end;
    const bool joins_previous = previous != by_offset_.end() && previous->end == offset;
    if (joins_previous && joins_next) {
      by_size_.erase(std::lower_bound(by_size_.begin(), by_size_.end(), by_size(*next)));
      resize(by_size(*previous), {next->end - previous->begin, previous->begin});
      previous->end = next->end;
      by_offset_.erase(next);
    } else if (joins_previous) {
      resize(by_size(*previous), {end - previous->begin, previous->begin});
      previous->end = end;
    } else if (joins_next) {
      resize(by_size(*next), {next->end - offset, offset});
      next->begin = offset;
    } else {
      by_offset_.insert(next, {offset, end});
      by_size_.insert(std::lower_bound(by_size_.begin(), by_size_.end(), BySize{bytes, offset}), {bytes, offset});
    }
  }

 private:
  struct Range {
    std::int64_t begin, end;
  };
  using BySize = std::pair<std::int64_t, std::int64_t>;  // size, offset
  static constexpr std::int64_t kArena = kUnlimited / 2;

  static BySize by_size(const Range& range) { return {range.end - range.begin, range.begin}; }
  std::vector<Range>::iterator at_or_above(std::int64_t offset) {
    return std::lower_bound(by_offset_.begin(), by_offset_.end(), offset,
                            [](const Range& range, std::int64_t value) { return range.begin < value; });
  }
  // Puts `now` in the place of `before`, and what is between the two out of its way.
  void resize(const BySize& before, const BySize& now) {
    const auto from = std::lower_bound(by_size_.begin(), by_size_.end(), before);
    const auto to = std::lower_bound(by_size_.begin(), by_size_.end(), now);
    if (to <= from) {
      std::move_backward(to, from, from + 1);
      *to = now;
    } else {
      std::move(from + 1, to, from);
      *(to - 1) = now;
    }
  }

  std::vector<Range> by_offset_{{0, kArena}};
  std::vector<BySize> by_size_{{kArena, 0}};
};

enum class Time : std::uint8_t { forward, reversed };
enum class First : std::uint8_t { longest, largest };

// Best fit in the order of time (or of reversed time), as an allocator would do it that never moves anything: O(n log n).
// Forward suits activations that grow towards the peak, reversed those that shrink after it. Of blocks that start together the
// longest goes first, so that what stays lies below what goes, or the largest.
Offsets best_fit_in_time(std::span<const Lifetime> blocks, Time time, First first) {
  const bool reversed = time == Time::reversed;
  const auto begins = [&](std::size_t i) { return reversed ? -blocks[i].last : blocks[i].first; };
  const auto ends = [&](std::size_t i) { return reversed ? -blocks[i].first : blocks[i].last; };
  const Order order = sorted_by(
      blocks.size(), [&](std::size_t i) { return std::pair(begins(i), first == First::longest ? -ends(i) : -blocks[i].bytes); });

  Offsets offsets(blocks.size());
  FreeList free;
  using Ending = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> live;
  for (const std::int32_t index : order) {
    const std::size_t i = at(index);
    for (; !live.empty() && live.top().first < begins(i); live.pop()) {
      const std::size_t gone = live.top().second;
      free.give(offsets[gone], blocks[gone].bytes);
    }
    offsets[i] = free.take(blocks[i].bytes);
    live.emplace(ends(i), i);
  }
  return offsets;
}

// First fit in any order, the lowest gap among the blocks placed before that share time: O(n²), so it counts its looks.
class FirstFit {
 public:
  explicit FirstFit(std::span<const Lifetime> blocks) : blocks_(blocks) { placed_.reserve(blocks.size()); }

  std::int64_t looks() const { return looks_; }

  // False as soon as a block ends above `limit`; then `offsets` is unspecified.
  bool place(const Order& order, std::int64_t limit, Offsets& offsets) {
    placed_.clear();
    for (const std::int32_t index : order) {
      const Lifetime& block = blocks_[at(index)];
      std::int64_t offset = 0;
      auto above = placed_.begin();
      for (; above != placed_.end(); ++above) {
        if (above->last < block.first || above->first > block.last) continue;
        if (above->begin >= offset + block.bytes) break;
        offset = std::max(offset, above->end);
      }
      looks_ += above - placed_.begin() + 1;
      if (offset + block.bytes > limit) return false;
      offsets[at(index)] = offset;
      const auto where = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                          [](std::int64_t value, const Placed& placed) { return value < placed.begin; });
      placed_.insert(where, {offset, offset + block.bytes, block.first, block.last});
    }
    return true;
  }

 private:
  struct Placed {
    std::int64_t begin, end, first, last;
  };

  std::span<const Lifetime> blocks_;
  std::vector<Placed> placed_;  // by begin
  std::int64_t looks_ = 0;
};

struct Candidate {
  Order order;  // first fit in this order gives `offsets`
  Offsets offsets;
  std::int64_t top = 0;
};

// Moves a block at the top, or one that shares time with it, elsewhere in the order, and keeps what is not worse.
void improve(std::span<const Lifetime> blocks, FirstFit& fit, Candidate& best, std::int64_t bound, std::int64_t enough,
             std::int64_t starts) {
  std::mt19937_64 random(blocks.size());  // seeded by the problem: the same answer every time
  const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
  constexpr int kTries = 20;

  Offsets offsets(blocks.size());
  std::vector<std::int64_t> at_top;
  const std::int64_t start = fit.looks();
  const auto worth_it = [&] {
    const bool good = best.top <= bound + bound / kGood;
    return best.top > enough && fit.looks() - start < (good ? kFewLooks : kLooks) / starts;
  };
  while (worth_it()) {
    at_top.clear();
    for (std::size_t k = 0; k < best.order.size(); ++k) {
      const std::size_t i = at(best.order[k]);
      if (best.offsets[i] + blocks[i].bytes == best.top) at_top.push_back(static_cast<std::int64_t>(k));
    }
    std::int64_t from = at_top[at(below(at_top.size()))];
    std::int64_t to = below(at(from) + 1);
    if (random() % 2 == 0) {
      const Lifetime& top = blocks[at(best.order[at(from)])];
      for (int tries = 0; tries < kTries; ++tries) {
        const std::int64_t other = below(blocks.size());
        if (!share_time(top, blocks[at(best.order[at(other)])])) continue;
        from = other;
        to = below(blocks.size());
        break;
      }
    }
    const auto move = [&](std::int64_t source, std::int64_t target) {
      const auto begin = best.order.begin();
      if (target < source) std::rotate(begin + target, begin + source, begin + source + 1);
      if (target > source) std::rotate(begin + source, begin + source + 1, begin + target + 1);
    };
    move(from, to);
    if (fit.place(best.order, best.top, offsets)) {
      best.offsets.swap(offsets);
      best.top = top_of(blocks, best.offsets);
    } else {
      move(to, from);
    }
  }
}

// The lowest packing of blocks whose bytes are positive multiples of the alignment, or the first that is as low as wanted.
Offsets pack_blocks(std::span<const Lifetime> blocks, std::int64_t wanted) {
  const std::size_t n = blocks.size();
  const std::int64_t bound = largest_live_sum(blocks);
  const std::int64_t enough = std::max(wanted, bound + bound / kGoodEnough);

  std::vector<Candidate> candidates;
  const auto consider = [&](Offsets offsets) {
    const std::int64_t top = top_of(blocks, offsets);
    candidates.push_back({{}, std::move(offsets), top});
    return top <= enough;
  };
  const auto lowest = [&] {
    return std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.top < b.top; });
  };

  for (const First first : {First::longest, First::largest})
    for (const Time time : {Time::forward, Time::reversed})
      if (consider(best_fit_in_time(blocks, time, first))) return lowest()->offsets;
  const auto count = static_cast<std::int64_t>(n);
  if (count * count / 2 > kLooks) return lowest()->offsets;

  FirstFit fit(blocks);
  const auto duration = [&](std::size_t i) { return blocks[i].last - blocks[i].first + 1; };
  Offsets offsets(n);
  fit.place(sorted_by(n, [&](std::size_t i) { return std::pair(-blocks[i].bytes, -duration(i)); }), kUnlimited, offsets);
  if (consider(offsets)) return lowest()->offsets;
  fit.place(
      sorted_by(n,
                [&](std::size_t i) { return -static_cast<double>(blocks[i].bytes) * std::sqrt(static_cast<double>(duration(i))); }),
      kUnlimited, offsets);
  if (consider(offsets)) return lowest()->offsets;

  // Search from the best three, each with its share of the looks. Placing a packing's blocks from the bottom up never raises it.
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.top < b.top; });
  constexpr int kStarts = 3;
  candidates.resize(kStarts);
  for (int start = 0; start < kStarts; ++start) {
    Candidate& candidate = candidates[at(start)];
    candidate.order = sorted_by(n, [&](std::size_t i) { return candidate.offsets[i]; });
    OUTSIZE_CHECK(fit.place(candidate.order, candidate.top, candidate.offsets));
    candidate.top = top_of(blocks, candidate.offsets);
    improve(blocks, fit, candidate, bound, enough, kStarts);
    if (candidate.top <= enough) break;
  }
  return lowest()->offsets;
}

}  // namespace

std::int64_t largest_live_sum(std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // at equal times the negative ones come first
  changes.reserve(2 * lifetimes.size());
  for (const Lifetime& lifetime : lifetimes) {
    const std::int64_t bytes = align_up(lifetime.bytes, kAlignment);
    changes.emplace_back(lifetime.first, bytes);
    changes.emplace_back(lifetime.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (const auto& [time, change] : changes) largest = std::max(largest, sum += change);
  return largest;
}

Packing pack(std::span<const Lifetime> lifetimes, std::int64_t enough) {
  Packing packing;
  packing.offsets.assign(lifetimes.size(), 0);

  std::int64_t begin = kUnlimited;
  std::int64_t end = -kUnlimited;
  for (const Lifetime& lifetime : lifetimes) {
    OUTSIZE_CHECK(lifetime.bytes >= 0 && lifetime.first <= lifetime.last);
    if (lifetime.bytes == 0) continue;
    begin = std::min(begin, lifetime.first);
    end = std::max(end, lifetime.last);
  }

  // What lives throughout leaves no choice: it lies at the bottom, in the given order.
  std::int64_t base = 0;
  std::vector<Lifetime> blocks;
  std::vector<std::size_t> origin;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    const std::int64_t bytes = align_up(lifetime.bytes, kAlignment);
    if (bytes == 0) continue;
    if (lifetime.first == begin && lifetime.last == end) {
      packing.offsets[i] = base;
      base += bytes;
    } else {
      blocks.push_back({bytes, lifetime.first, lifetime.last});
      origin.push_back(i);
    }
  }
  if (!blocks.empty()) {
    const Offsets offsets = pack_blocks(blocks, enough - base);
    for (std::size_t k = 0; k < blocks.size(); ++k) packing.offsets[origin[k]] = base + offsets[k];
  }
  for (std::size_t i = 0; i < lifetimes.size(); ++i) packing.peak = std::max(packing.peak, packing.offsets[i] + lifetimes[i].bytes);
  return packing;
}

}  // namespace outsize
