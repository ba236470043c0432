#pragma once

#include <algorithm>

#include "backend/interface.h"

namespace outsize {

// The memory of one tier, with a zone behind it that nobody may touch. It starts filled with a pattern, so that what was touched
// shows, and so that the system has really given it.
class Arena {
 public:
  // No float that a network computes ends in this byte (it would be about -3e-16), no index does, and zero and NaN do not.
  static constexpr std::byte kPattern{0xA5};

  Arena(Backend& backend, Tier tier, std::int64_t bytes, std::int64_t guard_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes it `bytes` large if it is smaller. Its content stays, but may move.
  void grow(std::int64_t bytes);

  // Addresses of the tier's memory, which only the backend may follow where it is not addressable().
  std::byte* data() const { return memory_; }
  std::int64_t bytes() const { return bytes_; }
  Tier tier() const { return tier_; }

  // From and to the bytes from `offset` on.
  void write(std::int64_t offset, std::span<const std::byte> data) { backend_.upload(tier_, data, memory_ + offset); }
  void read(std::int64_t offset, std::span<std::byte> data) const { backend_.download(tier_, memory_ + offset, data); }
  // Sets a range to one byte.
  void fill(std::int64_t offset, std::int64_t bytes, std::byte byte) { backend_.fill(tier_, memory_ + offset, bytes, byte); }
  bool addressable() const { return backend_.addressable(tier_); }

  // Throws InternalError when a byte behind the arena was written.
  void check_guard() const;
  // One past the highest byte that does not show the pattern, or ever did not when it was asked before.
  std::int64_t touched_bytes() const;
  // Takes everything below `end` as touched.
  void count_as_touched(std::int64_t end) { touched_ = std::max(touched_, end); }
  // Puts the pattern back into [begin, end), clipped to arena and guard zone; what was touched there is not forgotten.
  void restore_pattern(std::int64_t begin, std::int64_t end);
  // The first byte of [begin, end), clipped likewise, that does not show the pattern, or -1.
  std::int64_t first_touched(std::int64_t begin, std::int64_t end) const;

 private:
  void note_touched(std::int64_t begin, std::int64_t end) const;

  Backend& backend_;
  Tier tier_;
  std::int64_t bytes_;
  std::int64_t guard_bytes_;
  std::byte* memory_;
  mutable std::int64_t touched_ = 0;
};

}  // namespace outsize
