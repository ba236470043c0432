#include "program/packing/first_fit.h"

namespace outsize {

bool FirstFit::place(const Order& order, std::int64_t limit, Offsets& offsets) {
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

void FirstFit::lift(Placed& block, std::span<const Placed> some, std::span<const Placed> others) {
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

void FirstFit::insert(std::vector<Placed>& placed, const Placed& block) {
  placed.insert(std::upper_bound(placed.begin(), placed.end(), block.begin,
                                 [](std::int64_t value, const Placed& other) { return value < other.begin; }),
                block);
}

}  // namespace outsize
