#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace outsize {

// By lane, how many of its instructions (loops unrolled) are meant: the first so many.
using Ordinals = std::array<std::int64_t, kLanes>;

constexpr std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }

inline void raise_to(Ordinals& ordinals, const Ordinals& other) {
  for (std::size_t l = 0; l < kLanes; ++l) ordinals[l] = std::max(ordinals[l], other[l]);
}

// One instruction of the unrolled program, and all that has completed for sure when it starts.
struct Moment {
  std::int32_t instruction = -1;
  std::int64_t iteration = 0;
  Lane lane = Lane::compute;
  std::int64_t ordinal = 0;  // of its lane, from 1
  Ordinals before{};
};

// Happens-before over lanes: an instruction follows its lane's previous one and those that its waits name, and all that these
// follow. Vector clocks; a lane's clock is stored only where a wait changed it, so a program without waits stores none.
class HappensBefore {
 public:
  std::int64_t issued(Lane lane) const { return issued_[index_of(lane)]; }

  // The lane's next instruction, in issue order.
  void issue(Lane lane) {
    const std::size_t l = index_of(lane);
    clocks_[l][l] = issued_[l]++;
  }

  // The lane's newest instruction waits for the first `count` of `on`. False if so many have not been issued: a deadlock.
  bool wait(Lane lane, Lane on, std::int64_t count) {
    const std::size_t l = index_of(lane);
    const std::size_t m = index_of(on);
    Ordinals& clock = clocks_[l];
    if (count <= clock[m]) return true;
    if (l == m || count > issued_[m]) return false;
    std::vector<Change>& changes = changes_[m];
    const auto after = std::upper_bound(changes.begin(), changes.end(), count,
                                        [](std::int64_t value, const Change& change) { return value < change.ordinal; });
    if (after != changes.begin()) raise_to(clock, std::prev(after)->clock);
    clock[m] = count;
    if (changes_[l].empty() || changes_[l].back().ordinal != issued_[l]) changes_[l].push_back({issued_[l], {}});
    changes_[l].back().clock = clock;
    return true;
  }

  // What has completed for sure when the lane's newest instruction starts.
  const Ordinals& before(Lane lane) const { return clocks_[index_of(lane)]; }

 private:
  struct Change {
    std::int64_t ordinal;
    Ordinals clock;
  };

  Ordinals issued_{};
  std::array<Ordinals, kLanes> clocks_{};
  std::array<std::vector<Change>, kLanes> changes_;
};

}  // namespace outsize
