#pragma once

#include <cstdint>
#include <vector>

#include "plan/remaking/run_sequence.h"

namespace outsize {

// Numbers that look random and are the same every time (splitmix64).
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  // From 0 to 1, without 1.
  double part() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // From 0 to count − 1.
  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count)); }

 private:
  std::uint64_t state_;
};

struct AnnealingEffort {
  std::int64_t moves = 0;
  // Temperatures, as parts of the step: a move that costs so much more is taken once in e.
  double hottest = 0.0005, coldest = 0.00001;
  // The price of bytes in the last fiftieth below the limit, in steps a limit: sequences that are rarely full pack better.
  double crowding = 0;
  std::uint64_t seed = 1;
};

// What a search has found: a sequence within its limit, or, with no runs, nothing.
struct FoundSequence {
  std::vector<std::int32_t> sequence;
  double seconds = 0;
  bool found() const { return !sequence.empty(); }
};

// Changes a sequence by random moves (a further run goes, comes, is shifted, or goes while others come in its stead; a base run is
// moved), taking what costs less and, ever more rarely, what costs more; what exceeds `limit` bytes costs too, and ever more.
// Returns the fastest that does not.
FoundSequence anneal(const RemakeProblem& problem, const std::vector<std::int32_t>& from, std::int64_t limit,
                     const AnnealingEffort& effort);

}  // namespace outsize
