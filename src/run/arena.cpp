#include "run/arena.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace outsize {
namespace {

void fill(std::byte* memory, std::int64_t bytes) {
  std::memset(memory, std::to_integer<int>(Arena::kPattern), static_cast<std::size_t>(bytes));
}

bool is_pattern(std::byte byte) { return byte == Arena::kPattern; }

}  // namespace

Arena::Arena(Backend& backend, Tier tier, std::int64_t bytes, std::int64_t guard_bytes)
    : backend_(backend),
      tier_(tier),
      bytes_(bytes),
      guard_bytes_(guard_bytes),
      memory_(backend.allocate(tier, bytes + guard_bytes)) {
  fill(memory_, bytes_ + guard_bytes_);
}

Arena::~Arena() { backend_.deallocate(tier_, memory_, bytes_ + guard_bytes_); }

void Arena::grow(std::int64_t bytes) {
  if (bytes <= bytes_) return;
  memory_ = backend_.reallocate(tier_, memory_, bytes_ + guard_bytes_, bytes + guard_bytes_);
  const std::int64_t from = bytes_;  // what was the zone behind the arena is part of it now
  bytes_ = bytes;
  fill(memory_ + from, bytes_ + guard_bytes_ - from);
}

void Arena::check_guard() const {
  if (const std::int64_t touched = first_touched(bytes_, bytes_ + guard_bytes_); touched >= 0)
    internal_error("byte {} of the {} arena was written, which ends at {}", touched, name_of(tier_), bytes_);
}

std::int64_t Arena::touched_bytes() const {
  note_touched(0, bytes_);
  return touched_;
}

void Arena::note_touched(std::int64_t begin, std::int64_t end) const {
  begin = std::max(begin, touched_);
  end = std::min(end, bytes_);
  // Untouched ends of large arenas are skipped block by block.
  constexpr std::int64_t kBlock = 4096;
  static const auto blank = [] {
    std::array<std::byte, kBlock> block;
    block.fill(kPattern);
    return block;
  }();
  while (end - kBlock >= begin && std::memcmp(memory_ + end - kBlock, blank.data(), kBlock) == 0) end -= kBlock;
  while (end > begin && is_pattern(memory_[end - 1])) --end;
  if (end > begin) touched_ = end;
}

void Arena::restore_pattern(std::int64_t begin, std::int64_t end) {
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, bytes_ + guard_bytes_);
  if (begin >= end) return;
  note_touched(begin, end);
  fill(memory_ + begin, end - begin);
}

std::int64_t Arena::first_touched(std::int64_t begin, std::int64_t end) const {
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, bytes_ + guard_bytes_);
  if (begin >= end) return -1;
  const std::byte* const found = std::find_if_not(memory_ + begin, memory_ + end, is_pattern);
  return found == memory_ + end ? -1 : found - memory_;
}

}  // namespace outsize
