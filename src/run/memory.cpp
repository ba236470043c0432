#include "run/memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace outsize {

Memory::Memory(Backend& backend, const Sizes& sizes, std::int64_t guard_bytes, const std::string& spill_directory) : sizes_(sizes) {
  arenas_[0] = std::make_unique<Arena>(backend, Tier::device, sizes[0], guard_bytes, true);
  if (sizes[1] > 0) arenas_[1] = std::make_unique<Arena>(backend, Tier::host, sizes[1], guard_bytes, false);
  if (sizes[2] > 0) spill_ = std::make_unique<SpillFile>(spill_directory, sizes[2]);
}

void Memory::copy_from(const Memory& other, const Sizes& ends) {
  for (std::size_t tier = 0; tier < arenas_.size(); ++tier)
    if (ends[tier] > 0) std::memcpy(arenas_[tier]->data(), other.arenas_[tier]->data(), static_cast<std::size_t>(ends[tier]));
  constexpr std::int64_t kPart = std::int64_t{1} << 20;
  std::vector<std::byte> part(static_cast<std::size_t>(std::min(ends[2], kPart)));
  for (std::int64_t at = 0; at < ends[2]; at += kPart) {
    const std::span<std::byte> bytes(part.data(), static_cast<std::size_t>(std::min(kPart, ends[2] - at)));
    other.spill_->read(at, bytes);
    spill_->write(at, bytes);
  }
}

}  // namespace outsize
