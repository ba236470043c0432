#include "run/arena.h"

#include <algorithm>

namespace outsize {

Arena::Arena(Backend& backend, Tier tier, std::int64_t bytes, std::int64_t guard_bytes)
    : backend_(backend),
      tier_(tier),
      bytes_(bytes),
      guard_bytes_(guard_bytes),
      memory_(backend.allocate(tier, bytes + guard_bytes)) {
  backend_.fill(tier_, memory_, bytes_ + guard_bytes_, kPattern);
}

Arena::~Arena() { backend_.deallocate(tier_, memory_, bytes_ + guard_bytes_); }

void Arena::grow(std::int64_t bytes) {
  if (bytes <= bytes_) return;
  memory_ = backend_.reallocate(tier_, memory_, bytes_ + guard_bytes_, bytes + guard_bytes_);
  const std::int64_t from = bytes_;  // what was the zone behind the arena is part of it now
  bytes_ = bytes;
  backend_.fill(tier_, memory_ + from, bytes_ + guard_bytes_ - from, kPattern);
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
  if (begin >= end) return;
  if (const std::int64_t last = backend_.last_other(tier_, memory_ + begin, end - begin, kPattern); last >= 0)
    touched_ = begin + last + 1;
}

void Arena::restore_pattern(std::int64_t begin, std::int64_t end) {
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, bytes_ + guard_bytes_);
  if (begin >= end) return;
  note_touched(begin, end);
  backend_.fill(tier_, memory_ + begin, end - begin, kPattern);
}

std::int64_t Arena::first_touched(std::int64_t begin, std::int64_t end) const {
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, bytes_ + guard_bytes_);
  if (begin >= end) return -1;
  const std::int64_t found = backend_.first_other(tier_, memory_ + begin, end - begin, kPattern);
  return found < 0 ? -1 : begin + found;
}

}  // namespace outsize
