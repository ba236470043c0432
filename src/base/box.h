#pragma once

#include <algorithm>
#include <string>

#include "base/shape.h"

namespace outsize {

// A half-open range [lo, hi); empty when hi <= lo.
struct Interval {
  std::int64_t lo = 0;
  std::int64_t hi = 0;

  constexpr std::int64_t size() const { return hi > lo ? hi - lo : 0; }
  constexpr bool empty() const { return hi <= lo; }
  constexpr bool operator==(const Interval&) const = default;
};

// The smallest interval that contains both; an empty one adds nothing.
constexpr Interval hull(Interval a, Interval b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

constexpr Interval intersect(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

// A half-open hyper-rectangle of a value, [lo, hi) per dimension, in the value's own (global) coordinates.
struct Box {
  Dims lo;
  Dims hi;

  Box() = default;
  Box(Dims low, Dims high) : lo(low), hi(high) {}
  // The whole of a value of this shape.
  static Box whole(const Dims& shape) { return {Dims::filled(shape.rank(), 0), shape}; }
  // A box of this rank with no element.
  static Box none(int rank) { return {Dims::filled(rank, 0), Dims::filled(rank, 0)}; }

  int rank() const { return lo.rank(); }
  Interval operator[](int dim) const { return {lo[dim], hi[dim]}; }
  void set(int dim, Interval range) {
    lo[dim] = range.lo;
    hi[dim] = range.hi;
  }
  std::int64_t extent(int dim) const { return (*this)[dim].size(); }
  Dims shape() const {
    Dims extents;
    for (int i = 0; i < rank(); ++i) extents.push_back(extent(i));
    return extents;
  }
  std::int64_t elements() const {
    std::int64_t total = 1;
    for (int i = 0; i < rank(); ++i) total *= extent(i);
    return total;
  }
  bool empty() const {
    for (int i = 0; i < rank(); ++i)
      if (hi[i] <= lo[i]) return true;
    return false;
  }
  bool contains(const Box& inner) const {
    if (inner.empty()) return true;
    for (int i = 0; i < rank(); ++i)
      if (inner.lo[i] < lo[i] || inner.hi[i] > hi[i]) return false;
    return true;
  }
  // This box moved by `delta` elements per dimension.
  Box shifted(const Dims& delta, std::int64_t times = 1) const {
    Box moved = *this;
    for (int i = 0; i < rank(); ++i) {
      moved.lo[i] += delta[i] * times;
      moved.hi[i] += delta[i] * times;
    }
    return moved;
  }
  bool operator==(const Box&) const = default;
};

// The smallest box that contains both; an empty one adds nothing.
inline Box hull(const Box& a, const Box& b) {
  if (a.rank() == 0 || a.empty()) return b;
  if (b.rank() == 0 || b.empty()) return a;
  Box both = a;
  for (int i = 0; i < a.rank(); ++i) both.set(i, hull(a[i], b[i]));
  return both;
}

inline Box intersect(const Box& a, const Box& b) {
  Box common = a;
  for (int i = 0; i < a.rank(); ++i) common.set(i, intersect(a[i], b[i]));
  return common;
}

// "[0:2, 0:16, 4:9, 0:32]"
std::string to_string(const Box& box);

}  // namespace outsize
