#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace outsize {

// Some ids, ascending and each once: what of a graph a part of it has, where a table of all ids for each of thousands of parts
// would be too much.
template <class Id>
class IdSet {
 public:
  IdSet() = default;
  // In any order; what stands twice counts once.
  explicit IdSet(std::vector<Id> ids) : ids_(std::move(ids)) {
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  }

  bool contains(Id id) const { return std::binary_search(ids_.begin(), ids_.end(), id); }
  const std::vector<Id>& ids() const { return ids_; }

 private:
  std::vector<Id> ids_;
};

// Where each id of a list stands in it, found without a search.
template <class Id>
class IdPlaces {
 public:
  static constexpr std::int32_t kNone = -1;

  IdPlaces() = default;
  // `ids`: each once.
  explicit IdPlaces(std::span<const Id> ids) {
    const auto bits = std::max(1, static_cast<int>(std::bit_width(2 * ids.size())));
    shift_ = 64 - bits;
    entries_.assign(std::size_t{1} << bits, {});
    for (const Id id : ids) {
      Entry& entry = entries_[at(id)];
      entry = {id, count_++};
    }
  }

  // kNone: the id is not in the list.
  std::int32_t of(Id id) const { return entries_[at(id)].place; }

 private:
  struct Entry {
    Id id;
    std::int32_t place = kNone;
  };

  // The entry of the id, or the free one where it would be put: at least half are free.
  std::size_t at(Id id) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2⁶⁴ / golden ratio: neighbours fall far apart
    std::size_t entry = static_cast<std::size_t>((static_cast<std::uint64_t>(id.index) * kGolden) >> shift_);
    while (entries_[entry].place != kNone && entries_[entry].id != id) entry = (entry + 1) & (entries_.size() - 1);
    return entry;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(2);
  int shift_ = 63;
  std::int32_t count_ = 0;
};

}  // namespace outsize
