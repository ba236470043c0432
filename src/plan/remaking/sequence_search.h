#pragma once

#include <vector>

#include "plan/remaking/annealing.h"
#include "plan/remaking/eviction.h"

namespace outsize {

// Looks for fast sequences of a problem within limits of bytes.
class SequenceSearch {
 public:
  explicit SequenceSearch(const RemakeProblem& problem);

  // Sequences that differ in how they were found and fit into `limit`, the fastest first: by eviction with several weights, and by
  // what cuts at several prices hold. None where none of these fits.
  std::vector<FoundSequence> seeds(std::int64_t limit);
  // Those that eviction finds with the weights alone.
  std::vector<FoundSequence> quick_seeds(std::int64_t limit);
  // The fastest that is found with so many moves in all: the keys of eviction are changed while that helps, what comes of it is
  // annealed beside the seeds' fastest, with more moves for those that become faster than the others.
  FoundSequence best(std::int64_t limit, std::int64_t moves, std::uint64_t seed = 1);
  // What best() found last, or one that came close to it, annealed until it fits into less.
  FoundSequence nearby(std::int64_t limit, std::int64_t moves, std::uint64_t seed) const;
  // The least limit, to about a hundredth, at which eviction finds a sequence, and that sequence.
  struct Least {
    std::int64_t bytes = 0;
    std::vector<std::int32_t> sequence;
  };
  Least least();

 private:
  // What was found, and by which rule, if by eviction.
  struct Seed {
    FoundSequence found;
    EvictionRule rule;
    bool evicted = false;
  };

  bool consider(const std::vector<std::int32_t>& sequence, std::int64_t limit, const EvictionRule* rule);
  Eviction evict(std::int64_t limit, const EvictionRule& rule);
  void learn(std::int64_t limit);
  std::vector<FoundSequence> sorted_seeds();
  double crowding(double part) const;
  void find_groups();
  void change_keys(EvictionRule& rule, Chance& chance) const;
  FoundSequence climb(std::int64_t limit, const Seed& from, std::int64_t evictions, Chance& chance);

  const RemakeProblem& problem_;
  Evictor evictor_;
  std::int64_t looks_ = 0;  // of an eviction: the square of the ops
  std::vector<Table<bool>> cuts_;
  std::vector<Seed> seeds_;
  std::vector<FoundSequence> finalists_;  // of best()
  // Values whose keys are changed: one by one, all that are as large and take as long to make, or all that forward still reads at
  // one place.
  std::vector<std::int32_t> keyed_;
  std::vector<std::vector<std::int32_t>> alike_;
  Table<std::int32_t> last_in_forward_;  // by value: the last op of forward that reads it
};

}  // namespace outsize
