#include "run/memory.h"

#include <algorithm>
#include <vector>

namespace outsize {

Memory::Memory(Backend& backend, const Sizes& sizes, std::int64_t guard_bytes, const std::string& spill_directory)
    : backend_(backend), guard_bytes_(guard_bytes), spill_directory_(spill_directory), sizes_{} {
  grow(sizes);
}

bool Memory::smaller_than(const Sizes& peaks) const {
  return std::ranges::any_of(kTiers, [&](Tier tier) { return peaks[tier] > sizes_[tier]; });
}

void Memory::grow(const Sizes& peaks) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    std::unique_ptr<Arena>& arena = arenas_[static_cast<std::size_t>(tier)];
    if (arena)
      arena->grow(peaks[tier]);
    else if (peaks[tier] > 0 || tier == Tier::device)
      arena = std::make_unique<Arena>(backend_, tier, peaks[tier], guard_bytes_);
  }
  if (spill_ && peaks.disk > sizes_.disk)
    spill_->grow(peaks.disk);
  else if (!spill_ && peaks.disk > 0)
    spill_ = std::make_unique<SpillFile>(spill_directory_, peaks.disk);
  for (const Tier tier : kTiers) sizes_[tier] = std::max(sizes_[tier], peaks[tier]);
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
