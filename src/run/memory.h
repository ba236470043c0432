#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "run/arena.h"
#include "run/checksums.h"
#include "run/spill_file.h"

namespace outsize {

// The memory of a run, one arena a tier, which all its programs use in turn.
class Memory {
 public:
  using Sizes = ByTier<std::int64_t>;  // bytes

  // All of it is taken at once, so that what the machine has not shows before the first step. `guard_bytes` lie behind each arena.
  Memory(Backend& backend, const Sizes& sizes, std::int64_t guard_bytes, const std::string& spill_directory);

  const Sizes& sizes() const { return sizes_; }
  // nullptr where the tier has no bytes, or none with an address.
  Arena* arena(Tier tier) const { return in_memory(tier) ? arenas_[static_cast<std::size_t>(tier)].get() : nullptr; }
  SpillFile* spill() const { return spill_.get(); }
  // One past the highest byte of a tier that was ever written.
  std::int64_t touched_bytes(Tier tier) const;
  // Calls sink(offset, part) for all of a range of the host or disk tier, in order.
  void read(Tier tier, std::int64_t offset, std::int64_t bytes,
            const std::function<void(std::int64_t, std::span<const std::byte>)>& sink) const;
  // Of the persistent values in lower tiers, by where they lie: all programs of the run share them. Empty where nobody checks.
  std::map<std::pair<Tier, std::int64_t>, Checksums>& sums() { return sums_; }

  // Whether a program with these peaks does not fit.
  bool smaller_than(const Sizes& peaks) const;
  // Makes room for a program with these peaks. What was there stays, but may lie at other addresses: no executor may live.
  void grow(const Sizes& peaks);

 private:
  Backend& backend_;
  std::int64_t guard_bytes_;
  std::string spill_directory_;
  Sizes sizes_;
  std::array<std::unique_ptr<Arena>, 2> arenas_;  // device, host
  std::unique_ptr<SpillFile> spill_;
  std::map<std::pair<Tier, std::int64_t>, Checksums> sums_;
};

}  // namespace outsize
