#include "program/packing/best_fit.h"

#include <compare>
#include <limits>
#include <utility>
#include <vector>

namespace outsize {
namespace {

// The free ranges of an unlimited arena, coalesced, found by address and by size. Sorted arrays: there are few of them as a rule,
// and even thousands are moved up sooner than a tree is rebalanced.
class FreeList {
 public:
  // What lies below `begin` is taken.
  explicit FreeList(std::int64_t begin) : by_offset_{{begin, kArena}}, by_size_{by_size(by_offset_.front())} {}

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
  static constexpr std::int64_t kArena = std::numeric_limits<std::int64_t>::max() / 2;

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

  std::vector<Range> by_offset_;
  std::vector<BySize> by_size_;
};

}  // namespace

Offsets best_fit_from(std::int32_t start, const Order& stack, First first, std::span<const Lifetime> blocks,
                      const Instants& instants) {
  const std::int32_t end = instants.count - 1;
  const std::int64_t n = std::ssize(blocks);
  Offsets offsets(n);
  std::int64_t height = 0;
  for (const std::int32_t i : stack) {
    offsets[i] = height;
    height += blocks[i].bytes;
  }
  Order by_bytes;
  if (first == First::largest) by_bytes = sorted_by(n, [&](std::int64_t i) { return -blocks[i].bytes; });

  for (const bool reversed : {false, true}) {
    const auto begins = [&](std::int64_t i) { return reversed ? end - instants.last[i] : instants.first[i]; };
    const auto ends = [&](std::int64_t i) { return reversed ? end - instants.first[i] : instants.last[i]; };
    const std::int32_t from = reversed ? end - start : start;
    Order order;
    const auto add = [&](std::int32_t i) {
      if (begins(i) > from) order.push_back(i);
    };
    if (first == First::largest) {
      for (const std::int32_t i : by_bytes) add(i);
    } else {
      for (std::int32_t i = 0; i < n; ++i) add(i);
      order = sorted_by_instant(order, instants.count, [&](std::int64_t i) { return end - ends(i); });
    }
    order = sorted_by_instant(order, instants.count, begins);

    FreeList free(height);
    constexpr std::int32_t kNone = -1;
    // The live blocks that end at an instant, as a list: by instant the first of them, by block the one after it.
    Table<std::int32_t> ending(instants.count, kNone);
    Table<std::int32_t> next(n, kNone);
    for (const std::int32_t i : stack) next[i] = std::exchange(ending[ends(i)], i);
    std::int32_t now = from;
    for (const std::int32_t i : order) {
      for (; now < begins(i); ++now)
        for (std::int32_t gone = ending[now]; gone != kNone; gone = next[gone]) free.give(offsets[gone], blocks[gone].bytes);
      offsets[i] = free.take(blocks[i].bytes);
      next[i] = std::exchange(ending[ends(i)], i);
    }
  }
  return offsets;
}

}  // namespace outsize
