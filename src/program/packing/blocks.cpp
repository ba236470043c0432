#include "program/packing/blocks.h"

#include <limits>
#include <vector>

namespace outsize {

Instants instants_of(std::span<const Lifetime> lifetimes) {
  Instants instants;
  if (lifetimes.empty()) return instants;
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const Lifetime& lifetime : lifetimes) {
    begin = std::min(begin, lifetime.first);
    end = std::max(end, lifetime.last);
  }
  const auto number_all = [&](auto number) {
    instants.first.reserve(std::ssize(lifetimes));
    instants.last.reserve(std::ssize(lifetimes));
    for (const Lifetime& lifetime : lifetimes) {
      instants.first.push_back(static_cast<std::int32_t>(number(lifetime.first)));
      instants.last.push_back(static_cast<std::int32_t>(number(lifetime.last)));
    }
  };
  constexpr std::int64_t kDense = 16;  // instants a lifetime
  if (end - begin < kDense * std::ssize(lifetimes)) {
    instants.count = static_cast<std::int32_t>(end - begin + 1);
    number_all([&](std::int64_t instant) { return instant - begin; });
    return instants;
  }
  std::vector<std::int64_t> all;
  for (const Lifetime& lifetime : lifetimes) {
    all.push_back(lifetime.first);
    all.push_back(lifetime.last);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  instants.count = static_cast<std::int32_t>(all.size());
  number_all([&](std::int64_t instant) { return std::lower_bound(all.begin(), all.end(), instant) - all.begin(); });
  return instants;
}

Table<std::int64_t> live_sums(std::span<const Lifetime> blocks, const Instants& instants) {
  Table<std::int64_t> sums(instants.count + 1, 0);
  for (std::int64_t i = 0; i < std::ssize(blocks); ++i) {
    sums[instants.first[i]] += blocks[i].bytes;
    sums[instants.last[i] + 1] -= blocks[i].bytes;
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  sums.pop_back();
  return sums;
}

std::int64_t top_of(std::span<const Lifetime> blocks, const Offsets& offsets) {
  std::int64_t top = 0;
  for (std::int64_t i = 0; i < std::ssize(blocks); ++i) top = std::max(top, offsets[i] + blocks[i].bytes);
  return top;
}

}  // namespace outsize
