#include "run/memory.h"

#include <algorithm>

namespace outsize {

Memory::Memory(Backend& backend, const Sizes& sizes, std::int64_t guard_bytes, const std::string& spill_directory)
    : backend_(backend), guard_bytes_(guard_bytes), spill_directory_(spill_directory), sizes_{} {
  grow(sizes);
}

bool Memory::smaller_than(std::span<const std::int64_t, 3> peaks) const {
  return !std::equal(peaks.begin(), peaks.end(), sizes_.begin(), [](std::int64_t peak, std::int64_t size) { return peak <= size; });
}

void Memory::grow(std::span<const std::int64_t, 3> peaks) {
  for (std::size_t tier = 0; tier < arenas_.size(); ++tier) {
    const bool device = tier == 0;
    if (arenas_[tier])
      arenas_[tier]->grow(peaks[tier]);
    else if (peaks[tier] > 0 || device)
      arenas_[tier] = std::make_unique<Arena>(backend_, device ? Tier::device : Tier::host, peaks[tier], guard_bytes_, device);
  }
  if (spill_ && peaks[2] > sizes_[2])
    spill_->grow(peaks[2]);
  else if (!spill_ && peaks[2] > 0)
    spill_ = std::make_unique<SpillFile>(spill_directory_, peaks[2]);
  for (std::size_t tier = 0; tier < sizes_.size(); ++tier) sizes_[tier] = std::max(sizes_[tier], peaks[tier]);
}

}  // namespace outsize
