#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "program/packing/lifetime.h"

// Lifetimes whose lowest packing is known, or that look like those of large networks.
namespace outsize {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(hi - lo + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

// An arena of `height` units, of 1024 bytes each, that is full from beginning to end: whenever blocks end, what they leave free is
// given to new ones, which fill it exactly. One block in `holes` is left out again. So a packing of that height exists.
inline std::vector<Lifetime> full_arena(Random& random, std::int64_t height, std::int64_t count, std::int64_t holes) {
  struct Block {
    std::int64_t begin, end, first, last;
  };
  std::vector<Block> live{{0, height, -1, -1}};
  std::vector<Lifetime> lives;
  for (std::int64_t now = 0; static_cast<std::int64_t>(lives.size()) < count; ++now) {
    std::vector<Block> next;
    for (std::size_t k = 0; k < live.size();) {
      if (live[k].last >= now) {
        next.push_back(live[k++]);
        continue;
      }
      const std::int64_t begin = live[k].begin;
      std::int64_t end = begin;
      for (; k < live.size() && live[k].last < now; ++k) end = live[k].end;
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t most = random.one_in(4) ? height / 2 : height / 16;
        const std::int64_t top = std::min(end, at + random.between(1, most));
        const std::int64_t last = now + random.between(0, random.one_in(4) ? 60 : 10);
        next.push_back({at, top, now, last});
        if (!random.one_in(holes)) lives.push_back({(top - at) * 1024, now, last});
        at = top;
      }
    }
    live = next;
  }
  // Cut off where the last began, so that all that is live there is whole.
  std::shuffle(lives.begin(), lives.end(), std::mt19937_64(static_cast<std::uint64_t>(random.between(0, 1'000'000))));
  return lives;
}

// A step of a transformer with so many layers: some 90 lifetimes a layer forward and 90 backward. Queries, keys, values, scores and
// hidden layers are saved for backward; of what is large, one in `recomputed` is made again there.
inline std::vector<Lifetime> transformer_step(Random& random, std::int64_t layers, std::int64_t recomputed) {
  constexpr std::int64_t kSteps = 24;                 // instants a layer
  constexpr std::int64_t kWidth = 8 * 1024 * 1024;    // bytes of a layer's input
  constexpr std::int64_t kScores = 20 * 1024 * 1024;  // of its attention's scores
  const std::int64_t turn = layers * kSteps, end = 2 * turn;
  std::vector<Lifetime> lives;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t begin = layer * kSteps, back = end - begin - kSteps;
    const auto save = [&](std::int64_t bytes, std::int64_t made, std::int64_t read) {
      const std::int64_t first = begin + made, last = back + kSteps - 1 - read;
      if (bytes >= kWidth && random.one_in(recomputed)) {
        lives.push_back({bytes, first, first + random.between(1, 3)});
        lives.push_back({bytes, std::max(turn, last - random.between(1, 6)), last});
      } else {
        lives.push_back({bytes, first, last});
      }
    };
    save(kWidth, 0, 0);
    for (int part = 0; part < 3; ++part) save(kWidth, 2 + part, 2 + part);  // queries, keys, values
    save(kScores, 6, 6);
    save(kWidth, 9, 9);
    save(kWidth, 12, 12);
    save(4 * kWidth, 15, 15);
    save(4 * kWidth, 17, 16);
    save(kWidth, 20, 19);
    for (int k = 0; k < 40; ++k) {  // statistics, masks and scratch
      const std::int64_t at = random.between(0, kSteps - 1);
      if (random.one_in(3))
        lives.push_back({random.between(100, 64 * 1024), begin + at, back + kSteps - 1 - at});
      else
        lives.push_back({random.between(1024, 2 * 1024 * 1024), begin + at, std::min(turn, begin + at + random.between(0, 3))});
      lives.push_back({random.between(1024, 2 * 1024 * 1024), back + at, std::min(end, back + at + random.between(0, 3))});
    }
    for (int k = 0; k < 10; ++k) {  // gradients of values, and of weights up to the update after backward
      const std::int64_t at = random.between(0, kSteps - 2);
      lives.push_back({kWidth, back + at, back + at + random.between(1, 4)});
      lives.push_back({random.between(1, 4) * kWidth / 8, back + at, random.one_in(4) ? end : back + kSteps - 1});
    }
  }
  return lives;
}

}  // namespace outsize
