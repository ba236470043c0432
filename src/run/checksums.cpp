#include "run/checksums.h"

#include <zlib.h>

#include <algorithm>

#include "base/error.h"

namespace outsize {
namespace {

std::uint32_t sum_of(std::uint32_t before, std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

// Calls body(index, first, last, part) for the parts of `data` that lie in different grains: whether its grain begins, or ends, in
// it.
template <class Body>
void for_each_grain(std::int64_t grain, std::int64_t offset, std::span<const std::byte> data, Body&& body) {
  while (!data.empty()) {
    const std::int64_t within = offset % grain, size = std::min(grain - within, static_cast<std::int64_t>(data.size()));
    body(offset / grain, within == 0, within + size == grain, data.first(size));
    offset += size;
    data = data.subspan(size);
  }
}

}  // namespace

Checksums::Checksums(std::int64_t bytes, std::int64_t grain) : grain_(grain), sums_(bytes / grain) {
  OUTSIZE_CHECK(bytes % grain == 0);
}

void Checksums::note(std::int64_t offset, std::span<const std::byte> data) {
  for_each_grain(grain_, offset, data, [&](std::int64_t index, bool first, bool, std::span<const std::byte> part) {
    std::uint32_t& sum = sums_[index];
    sum = sum_of(first ? 0 : sum, part);
  });
}

std::int64_t Checksums::find_changed(std::int64_t offset, std::span<const std::byte> data, std::uint32_t& running) const {
  std::int64_t changed = -1;
  for_each_grain(grain_, offset, data, [&](std::int64_t index, bool first, bool last, std::span<const std::byte> part) {
    running = sum_of(first ? 0 : running, part);
    if (last && changed < 0 && running != sums_[index]) changed = index * grain_;
  });
  return changed;
}

}  // namespace outsize
