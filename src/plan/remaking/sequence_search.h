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
  // The seeds' fastest, annealed with so many moves in all.
  FoundSequence best(std::int64_t limit, std::int64_t moves, std::uint64_t seed = 1);
  // What best() found last, annealed until it fits into less.
  FoundSequence nearby(std::int64_t limit, std::int64_t moves, std::uint64_t seed) const;
  // The least limit, to about a hundredth, at which eviction finds a sequence, and that sequence.
  struct Least {
    std::int64_t bytes = 0;
    std::vector<std::int32_t> sequence;
  };
  Least least();

 private:
  void consider(const std::vector<std::int32_t>& sequence, std::int64_t limit);
  Eviction evict(std::int64_t limit, const EvictionRule& rule);
  void learn(std::int64_t limit);

  const RemakeProblem& problem_;
  Evictor evictor_;
  std::vector<Table<bool>> cuts_;
  std::vector<FoundSequence> found_;
  FoundSequence last_;
};

}  // namespace outsize
