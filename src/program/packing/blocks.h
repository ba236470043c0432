#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

#include "base/table.h"
#include "program/packing/lifetime.h"

namespace outsize {

// Blocks are lifetimes that are packed for good: their bytes are positive multiples of the alignment.

using Offsets = Table<std::int64_t>;  // by block
using Order = Table<std::int32_t>;    // blocks, the first to be placed first

// The instants of lifetimes, numbered 0 … count - 1: those of a program, which are dense, by subtraction, others by their order.
struct Instants {
  Table<std::int32_t> first, last;  // by lifetime
  std::int32_t count = 0;
};

Instants instants_of(std::span<const Lifetime> lifetimes);

// The sum of the blocks' bytes at every instant.
Table<std::int64_t> live_sums(std::span<const Lifetime> blocks, const Instants& instants);

// Where the highest block ends.
std::int64_t top_of(std::span<const Lifetime> blocks, const Offsets& offsets);

// 0 … n-1, sorted by `key` ascending; equal keys keep their order.
template <class Key>
Order sorted_by(std::int64_t n, Key key) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
  return order;
}

// `order`, sorted by an instant of each, 0 … count - 1; equals keep their order.
template <class Instant>
Order sorted_by_instant(const Order& order, std::int32_t count, Instant instant) {
  Table<std::int32_t> begins(count + 1, 0);
  for (const std::int32_t i : order) ++begins[instant(i) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  Order sorted(order.size());
  for (const std::int32_t i : order) sorted[begins[instant(i)]++] = i;
  return sorted;
}

}  // namespace outsize
