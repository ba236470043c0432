#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "program/offsets.h"

// What a packing promises, looked at by code of its own.
namespace outsize {

// Every promise of the header except how low the peak is, by looking at every pair.
inline void expect_valid(const std::vector<Lifetime>& lives, const Packing& packing) {
  ASSERT_EQ(packing.offsets.size(), lives.size());
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    ASSERT_GE(packing.offsets[i], 0);
    ASSERT_EQ(packing.offsets[i] % kAlignment, 0);
    peak = std::max(peak, packing.offsets[i] + lives[i].bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool share_time = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
      const bool share_bytes =
          packing.offsets[i] < packing.offsets[j] + lives[j].bytes && packing.offsets[j] < packing.offsets[i] + lives[i].bytes;
      ASSERT_FALSE(share_time && share_bytes && lives[i].bytes > 0 && lives[j].bytes > 0) << i << " and " << j;
    }
  }
  EXPECT_EQ(packing.peak, peak);
}

// The same for any number of lifetimes: no two neighbours in the arena meet while both live.
inline void expect_valid_by_sweep(const std::vector<Lifetime>& lives, const Packing& packing) {
  struct Event {
    std::int64_t time;
    bool begins;
    std::size_t index;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].bytes == 0) continue;
    events.push_back({lives[i].first, true, i});
    events.push_back({lives[i].last + 1, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.time, a.begins, a.index) < std::tuple(b.time, b.begins, b.index);
  });
  std::map<std::int64_t, std::int64_t> live;  // begin → end
  for (const Event& event : events) {
    const std::int64_t begin = packing.offsets[event.index];
    if (!event.begins) {
      live.erase(begin);
      continue;
    }
    const auto [at, fresh] = live.emplace(begin, begin + lives[event.index].bytes);
    ASSERT_TRUE(fresh);
    if (at != live.begin()) {
      ASSERT_LE(std::prev(at)->second, begin);
    }
    if (std::next(at) != live.end()) {
      ASSERT_LE(at->second, std::next(at)->first);
    }
  }
}

inline double excess_percent(const std::vector<Lifetime>& lives, const Packing& packing) {
  const auto bound = static_cast<double>(largest_live_sum(lives));
  return 100 * (static_cast<double>(packing.peak) - bound) / bound;
}

}  // namespace outsize
