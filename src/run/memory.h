#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "run/arena.h"
#include "run/spill_file.h"

namespace outsize {

// The memory of a run, one arena a tier, which all its programs use in turn.
class Memory {
 public:
  using Sizes = std::array<std::int64_t, 3>;  // bytes by tier

  // The device arena is filled with the pattern that shows what was touched. `guard_bytes` lie behind each arena.
  Memory(Backend& backend, const Sizes& sizes, std::int64_t guard_bytes, const std::string& spill_directory);

  const Sizes& sizes() const { return sizes_; }
  // nullptr where the tier has no bytes, and for the disk.
  Arena* arena(Tier tier) const { return tier == Tier::disk ? nullptr : arenas_[static_cast<std::size_t>(tier)].get(); }
  SpillFile* spill() const { return spill_.get(); }

  // Whether a program with these peaks does not fit.
  bool smaller_than(std::span<const std::int64_t, 3> peaks) const;
  // Makes room for a program with these peaks. What was there stays, but may lie at other addresses: no executor may live.
  void grow(std::span<const std::int64_t, 3> peaks);

 private:
  Backend& backend_;
  std::int64_t guard_bytes_;
  std::string spill_directory_;
  Sizes sizes_;
  std::array<std::unique_ptr<Arena>, 2> arenas_;  // device, host
  std::unique_ptr<SpillFile> spill_;
};

}  // namespace outsize
