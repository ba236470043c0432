#pragma once

#include <vector>

#include "program/packing/blocks.h"

namespace outsize {

// First fit in any order, the lowest gap among the blocks placed before that share time: O(n²) at worst, so it counts its looks.
// Most blocks live shortly: time is cut into spans, and a block that lives within one is held against the others of that span and
// those that live longer.
class FirstFit {
 public:
  FirstFit(std::span<const Lifetime> blocks, const Instants& instants)
      : blocks_(blocks), instants_(instants), width_(instants.count / kSpans + 1), spans_(kSpans) {}

  // The blocks placed before that were looked at, of all calls.
  std::int64_t looks() const { return looks_; }

  // Places all blocks in that order. False as soon as a block ends above `limit`; then `offsets` is unspecified.
  bool place(const Order& order, std::int64_t limit, Offsets& offsets);

 private:
  static constexpr std::int32_t kSpans = 64;
  struct Placed {
    std::int64_t begin, end;
    std::int32_t first, last;
  };

  // Lifts `block` from the bottom into the lowest gap among those of two lists that share time with it.
  void lift(Placed& block, std::span<const Placed> some, std::span<const Placed> others);
  static void insert(std::vector<Placed>& placed, const Placed& block);

  std::span<const Lifetime> blocks_;
  const Instants& instants_;
  std::int32_t width_;  // of a span, in instants
  // All of these by begin.
  std::vector<Placed> all_;
  std::vector<Placed> long_;                // those that live within no span
  std::vector<std::vector<Placed>> spans_;  // the others
  std::int64_t looks_ = 0;
};

}  // namespace outsize
