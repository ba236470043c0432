#include "run/memory.h"

#include <algorithm>
#include <vector>

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
    if (arenas_[tier])
      arenas_[tier]->grow(peaks[tier]);
    else if (peaks[tier] > 0 || tier == 0)
      arenas_[tier] = std::make_unique<Arena>(backend_, static_cast<Tier>(tier), peaks[tier], guard_bytes_);
  }
  if (spill_ && peaks[2] > sizes_[2])
    spill_->grow(peaks[2]);
  else if (!spill_ && peaks[2] > 0)
    spill_ = std::make_unique<SpillFile>(spill_directory_, peaks[2]);
  for (std::size_t tier = 0; tier < sizes_.size(); ++tier) sizes_[tier] = std::max(sizes_[tier], peaks[tier]);
}

std::int64_t Memory::touched_bytes(Tier tier) const {
  if (tier == Tier::disk) return spill_ ? spill_->touched_bytes() : 0;
  return arena(tier) ? arena(tier)->touched_bytes() : 0;
}

void Memory::read(Tier tier, std::int64_t offset, std::int64_t bytes,
                  const std::function<void(std::int64_t, std::span<const std::byte>)>& sink) const {
  if (tier != Tier::disk) return sink(0, {arena(tier)->data() + offset, static_cast<std::size_t>(bytes)});
  constexpr std::int64_t kPart = 1 << 20;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kPart)));
  for (std::int64_t done = 0; done < bytes; done += kPart) {
    const auto part = std::span(buffer).first(static_cast<std::size_t>(std::min(bytes - done, kPart)));
    spill_->read(offset + done, part);
    sink(done, part);
  }
}

}  // namespace outsize
