#include "program/boxes.h"

namespace outsize {
namespace {

std::size_t hash_of(const MovingBox& box) {
  std::uint64_t hash = 0;
  const auto mix = [&](const Dims& dims) {
    hash += static_cast<std::uint64_t>(dims.rank());
    for (const std::int64_t number : dims) {
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E37'79B9'7F4A'7C15U;
      hash ^= hash >> 32;  // multiplication carries only upwards
    }
  };
  mix(box.start.lo);
  mix(box.start.hi);
  mix(box.step);
  return hash;
}

}  // namespace

BoxId BoxTable::add(const MovingBox& box) {
  const std::size_t hash = hash_of(box);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if ((*this)[it->second] == box) return it->second;
  const BoxId id(boxes_.size());
  boxes_.push_back(box);
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace outsize
