#include "program/offsets.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/table.h"

namespace outsize {
namespace {

// The quadratic orders may look at this many placed blocks in all: some tens of milliseconds, and none of it past n ≈ 9,000.
constexpr std::int64_t kLooks = 40'000'000;
// Within a hundredth of the lower bound, searching on is worth an eighth of that; within a thousandth, nothing.
constexpr std::int64_t kFewLooks = kLooks / 8;
constexpr std::int64_t kGood = 100;
constexpr std::int64_t kGoodEnough = 1000;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

using Offsets = Table<std::int64_t>;
using Order = Table<std::int32_t>;

bool share_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

Order as_given(std::int64_t n) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// 0 … n-1, sorted by `key` ascending; equal keys keep their order.
template <class Key>
Order sorted_by(std::int64_t n, Key key) {
  Order order = as_given(n);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
  return order;
}

// The instants of lifetimes, numbered 0 … count - 1: those of a program, which are dense, by subtraction, others by their order.
struct Instants {
  Table<std::int32_t> first, last;
  std::int32_t count = 0;
};

Instants instants_of(std::span<const Lifetime> lifetimes) {
  Instants instants;
  std::int64_t begin = kUnlimited;
  std::int64_t end = -kUnlimited;
  for (const Lifetime& lifetime : lifetimes) {
    begin = std::min(begin, lifetime.first);
    end = std::max(end, lifetime.last);
  }
  if (lifetimes.empty()) return instants;
  const auto number_all = [&](auto number) {
    instants.first.reserve(lifetimes.size());
    instants.last.reserve(lifetimes.size());
    for (const Lifetime& lifetime : lifetimes) {
      instants.first.push_back(static_cast<std::int32_t>(number(lifetime.first)));
      instants.last.push_back(static_cast<std::int32_t>(number(lifetime.last)));
    }
  };
  constexpr std::int64_t kDense = 16;  // instants a lifetime
  if (end - begin < kDense * std::ssize(lifetimes)) {
    instants.count = static_cast<std::int32_t>(end - begin + 1);
    number_all([&](std::int64_t instant) { return instant - begin; });
    return instants;
  }
  std::vector<std::int64_t> all;
  for (const Lifetime& lifetime : lifetimes) {
    all.push_back(lifetime.first);
    all.push_back(lifetime.last);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  instants.count = static_cast<std::int32_t>(all.size());
  number_all([&](std::int64_t instant) { return std::lower_bound(all.begin(), all.end(), instant) - all.begin(); });
  return instants;
}

// `order`, sorted by an instant of each, 0 … count - 1; equals keep their order.
template <class Instant>
Order sorted_by_instant(const Order& order, std::int32_t count, Instant instant) {
  Table<std::int32_t> begins(count + 1, 0);
  for (const std::int32_t i : order) ++begins[instant(i) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  Order sorted(order.size());
  for (const std::int32_t i : order) sorted[begins[instant(i)]++] = i;
  return sorted;
}

std::int64_t largest_live_sum(std::span<const Lifetime> lifetimes, const Instants& instants) {
  Table<std::int64_t> change(instants.count + 1, 0);
  for (std::int64_t i = 0; i < std::ssize(lifetimes); ++i) {
    const std::int64_t bytes = align_up(lifetimes[i].bytes, kAlignment);
    change[instants.first[i]] += bytes;
    change[instants.last[i] + 1] -= bytes;
  }
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (const std::int64_t bytes : change) largest = std::max(largest, sum += bytes);
  return largest;
}

std::int64_t top_of(std::span<const Lifetime> blocks, const Offsets& offsets) {
  std::int64_t top = 0;
  for (std::int64_t i = 0; i < std::ssize(blocks); ++i) top = std::max(top, offsets[i] + blocks[i].bytes);
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
  struct BySize {  // plain, so that many are moved at once
    std::int64_t size, offset;
    auto operator<=>(const BySize&) const = default;
  };
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
Offsets best_fit_in_time(std::span<const Lifetime> blocks, const Instants& instants, Time time, First first) {
  const std::int32_t end = instants.count - 1;
  const bool reversed = time == Time::reversed;
  const auto begins = [&](std::int64_t i) { return reversed ? end - instants.last[i] : instants.first[i]; };
  const auto ends = [&](std::int64_t i) { return reversed ? end - instants.first[i] : instants.last[i]; };
  Order order = first == First::largest
                    ? sorted_by(blocks.size(), [&](std::int64_t i) { return -blocks[i].bytes; })
                    : sorted_by_instant(as_given(blocks.size()), instants.count, [&](std::int64_t i) { return end - ends(i); });
  order = sorted_by_instant(order, instants.count, begins);

  Offsets offsets(blocks.size());
  FreeList free;
  constexpr std::int32_t kNone = -1;
  // The live blocks that end at an instant, as a list: by instant the first of them, by block the one after it.
  Table<std::int32_t> ending(instants.count, kNone);
  Table<std::int32_t> next(blocks.size(), kNone);
  std::int32_t now = 0;
  for (const std::int32_t index : order) {
    const std::int64_t i = index;
    for (; now < begins(i); ++now)
      for (std::int32_t gone = ending[now]; gone != kNone; gone = next[gone]) free.give(offsets[gone], blocks[gone].bytes);
    offsets[i] = free.take(blocks[i].bytes);
    next[i] = std::exchange(ending[ends(i)], index);
  }
  return offsets;
}

// First fit in any order, the lowest gap among the blocks placed before that share time: O(n²) at worst, so it counts its looks.
// Most blocks live shortly: time is cut into spans, and a block that lives within one is held against the others of that span and
// those that live longer.
class FirstFit {
 public:
  FirstFit(std::span<const Lifetime> blocks, const Instants& instants)
      : blocks_(blocks), instants_(instants), width_(instants.count / kSpans + 1), spans_(kSpans) {}

  std::int64_t looks() const { return looks_; }

  // False as soon as a block ends above `limit`; then `offsets` is unspecified.
  bool place(const Order& order, std::int64_t limit, Offsets& offsets) {
    all_.clear();
    long_.clear();
    for (std::vector<Placed>& span : spans_) span.clear();
    for (const std::int32_t index : order) {
      Placed block{0, blocks_[index].bytes, instants_.first[index], instants_.last[index]};
      const std::int32_t span = block.first / width_;
      const bool within = span == block.last / width_;
      std::vector<Placed>& mine = within ? spans_[span] : long_;
      lift(block, within ? mine : all_, within ? std::span<const Placed>(long_) : std::span<const Placed>());
      if (block.end > limit) return false;
      offsets[index] = block.begin;
      insert(mine, block);
      insert(all_, block);
    }
    return true;
  }

 private:
  static constexpr std::int32_t kSpans = 64;
  struct Placed {
    std::int64_t begin, end;
    std::int32_t first, last;
  };

  // Lifts `block` from the bottom into the lowest gap among those of two lists that share time with it.
  void lift(Placed& block, std::span<const Placed> some, std::span<const Placed> others) {
    auto a = some.begin();
    auto b = others.begin();
    while (a != some.end() || b != others.end()) {
      const Placed& above = b == others.end() || (a != some.end() && a->begin < b->begin) ? *a++ : *b++;
      if (above.begin >= block.end) break;
      if (above.last < block.first || above.first > block.last || above.end <= block.begin) continue;
      block.end += above.end - block.begin;
      block.begin = above.end;
    }
    looks_ += (a - some.begin()) + (b - others.begin()) + 1;
  }

  static void insert(std::vector<Placed>& placed, const Placed& block) {
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block.begin,
                                   [](std::int64_t value, const Placed& other) { return value < other.begin; }),
                  block);
  }

  std::span<const Lifetime> blocks_;
  const Instants& instants_;
  std::int32_t width_;  // of a span, in instants
  // All of these by begin.
  std::vector<Placed> all_;
  std::vector<Placed> long_;                // those that live within no span
  std::vector<std::vector<Placed>> spans_;  // the others
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
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  constexpr int kTries = 20;

  Offsets offsets(blocks.size());
  Table<std::int64_t> at_top;
  const std::int64_t start = fit.looks();
  const auto worth_it = [&] {
    const bool good = best.top <= bound + bound / kGood;
    return best.top > enough && fit.looks() - start < (good ? kFewLooks : kLooks) / starts;
  };
  while (worth_it()) {
    at_top.clear();
    for (std::int64_t k = 0; k < best.order.size(); ++k) {
      const std::int64_t i = best.order[k];
      if (best.offsets[i] + blocks[i].bytes == best.top) at_top.push_back(k);
    }
    std::int64_t from = at_top[below(at_top.size())];
    std::int64_t to = below(from + 1);
    if (random() % 2 == 0) {
      const Lifetime& top = blocks[best.order[from]];
      for (int tries = 0; tries < kTries; ++tries) {
        const std::int64_t other = below(blocks.size());
        if (!share_time(top, blocks[best.order[other]])) continue;
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
  const std::int64_t n = std::ssize(blocks);
  const Instants instants = instants_of(blocks);
  const std::int64_t bound = largest_live_sum(blocks, instants);
  const std::int64_t enough = std::max(wanted, bound + bound / kGoodEnough);

  Table<Candidate> candidates;
  const auto consider = [&](Offsets offsets) {
    const std::int64_t top = top_of(blocks, offsets);
    candidates.push_back({{}, std::move(offsets), top});
    return top <= enough;
  };
  const auto lowest = [&] {
    return std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.top < b.top; });
  };

  const auto fits_in_time = [&](First first) {
    return consider(best_fit_in_time(blocks, instants, Time::forward, first)) ||
           consider(best_fit_in_time(blocks, instants, Time::reversed, first));
  };
  FirstFit fit(blocks, instants);
  const auto fits_first = [&](auto key) {
    Offsets offsets(n);
    fit.place(sorted_by(n, key), kUnlimited, offsets);
    return consider(std::move(offsets));
  };
  const auto duration = [&](std::int64_t i) { return blocks[i].last - blocks[i].first + 1; };
  const auto largest = [&](std::int64_t i) { return std::pair(-blocks[i].bytes, -duration(i)); };
  const auto area = [&](std::int64_t i) {
    return -static_cast<double>(blocks[i].bytes) * std::sqrt(static_cast<double>(duration(i)));
  };
  const bool few = n * n / 2 <= kLooks;
  if (fits_in_time(First::longest) || (few && fits_first(largest)) || fits_in_time(First::largest) || !few || fits_first(area))
    return lowest()->offsets;

  // Search from the best three, each with its share of the looks. Placing a packing's blocks from the bottom up never raises it.
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.top < b.top; });
  constexpr int kStarts = 3;
  candidates.resize(kStarts);
  for (int start = 0; start < kStarts; ++start) {
    Candidate& candidate = candidates[start];
    candidate.order = sorted_by(n, [&](std::int64_t i) { return candidate.offsets[i]; });
    OUTSIZE_CHECK(fit.place(candidate.order, candidate.top, candidate.offsets));
    candidate.top = top_of(blocks, candidate.offsets);
    improve(blocks, fit, candidate, bound, enough, kStarts);
    if (candidate.top <= enough) break;
  }
  return lowest()->offsets;
}

}  // namespace

std::int64_t largest_live_sum(std::span<const Lifetime> lifetimes) { return largest_live_sum(lifetimes, instants_of(lifetimes)); }

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
  Table<std::int64_t> origin;
  for (std::int64_t i = 0; i < std::ssize(lifetimes); ++i) {
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
    for (std::int64_t k = 0; k < std::ssize(blocks); ++k) packing.offsets[origin[k]] = base + offsets[k];
  }
  for (std::int64_t i = 0; i < std::ssize(lifetimes); ++i)
    packing.peak = std::max(packing.peak, packing.offsets[i] + lifetimes[i].bytes);
  return packing;
}

}  // namespace outsize
