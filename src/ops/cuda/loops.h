#pragma once

#include <array>

#include "ops/cuda/support.h"

// Positions of nested loops, and where operands are at them: what kernels share whose operands do not lie alike.
namespace outsize::OUTSIZE_PLACE {

// The dimensions of a value from the outermost to the innermost, as its pieces lie in memory.
inline Dims stored_order(const StorageRule& storage, const ValueType& type) {
  Dims order;
  const int rank = type.shape.rank();
  const bool channels_last = stored_channels_last(storage, type.format, rank);
  for (int dim = 0; dim < rank; ++dim)
    if (!channels_last || dim != 1) order.push_back(dim);
  if (channels_last) order.push_back(1);
  return order;
}

// The step in memory along each dimension of a piece that holds `box`.
inline Dims stored_steps(const StorageRule& storage, const ValueType& type, const Box& box) {
  const Dims order = stored_order(storage, type);
  Dims steps = Dims::filled(box.rank(), 1);
  std::int64_t next = 1;
  for (int i = order.rank() - 1; i >= 0; --i) {
    const int dim = static_cast<int>(order[i]);
    steps[dim] = next;
    next *= box.extent(dim);
  }
  return steps;
}

// Nested loops, the last the innermost, with a step of each of K operands along each: Σ index · step is where operand k is.
// Positions are 32 bits, steps and offsets 64.
template <int K>
class Loops {
 public:
  static constexpr int kMost = Dims::kMaxRank;

  int depth() const { return depth_; }
  std::int64_t extent(int loop) const { return extents_[at(loop)]; }
  std::int64_t step(int operand, int loop) const { return steps_[at(operand)][at(loop)]; }
  std::int64_t positions() const {
    std::int64_t product = 1;
    for (int i = 0; i < depth_; ++i) product *= extent(i);
    return product;
  }

  // Adds a loop inside the others, as part of the innermost where it continues that in all operands.
  void add(std::int64_t extent, const std::array<std::int64_t, K>& steps) {
    if (extent == 1) return;
    bool joins = depth_ > 0;
    for (int k = 0; joins && k < K; ++k) joins = step(k, depth_ - 1) == steps[at(k)] * extent;
    if (!joins) ++depth_;
    extents_[at(depth_ - 1)] = joins ? extents_[at(depth_ - 1)] * extent : extent;
    for (int k = 0; k < K; ++k) steps_[at(k)][at(depth_ - 1)] = steps[at(k)];
  }

  // Makes the innermost loop go by vectors of v elements; its extent must be a multiple of v.
  Loops by_vectors(int v) const {
    Loops made = *this;
    if (v == 1) return made;
    OUTSIZE_CHECK(depth_ > 0 && extent(depth_ - 1) % v == 0);
    made.extents_[at(depth_ - 1)] /= v;
    for (int k = 0; k < K; ++k) made.steps_[at(k)][at(depth_ - 1)] *= v;
    return made;
  }

  // The loops around the innermost one.
  Loops around_innermost() const {
    Loops made = *this;
    if (depth_ > 0) --made.depth_;
    return made;
  }

  // f(loops, offsets of the operands) for parts of at most `most` positions that cover all of them, in order. The outermost loop
  // is cut at multiples of 4.
  template <class F>
  void for_each_part(std::int64_t most, const F& f, std::array<std::int64_t, K> from = {}) const {
    if (positions() <= most) return f(*this, from);
    const std::int64_t inner = positions() / extent(0);
    const std::int64_t at_once = std::max<std::int64_t>(1, most / inner / 4 * 4);
    for (std::int64_t i = 0; i < extent(0); i += at_once) {
      std::array<std::int64_t, K> offsets = from;
      for (int k = 0; k < K; ++k) offsets[at(k)] += i * step(k, 0);
      outermost(std::min(at_once, extent(0) - i)).for_each_part(most, f, offsets);
    }
  }

  // What kernels take along: call after the last change.
  struct Walk {
    int depth = 0;
    Divide extents[kMost];
    std::int64_t steps[K][kMost] = {};

    // Adds the offsets of position p to those of the operands.
    OUTSIZE_BOTH void add_offsets(std::uint32_t p, std::int64_t (&offsets)[K]) const {
      for (int i = depth - 1; i > 0; --i) {
        const std::uint32_t rest = extents[i].quotient(p), index = p - rest * extents[i].by();
        OUTSIZE_UNROLL
        for (int k = 0; k < K; ++k) offsets[k] += index * steps[k][i];
        p = rest;
      }
      if (depth > 0) {
        OUTSIZE_UNROLL
        for (int k = 0; k < K; ++k) offsets[k] += p * steps[k][0];
      }
    }
  };
  Walk walk() const {
    OUTSIZE_CHECK(positions() < (std::int64_t{1} << 31));
    Walk made;
    made.depth = depth_;
    for (int i = 0; i < depth_; ++i) {
      made.extents[i] = Divide(extent(i));
      for (int k = 0; k < K; ++k) made.steps[k][i] = step(k, i);
    }
    return made;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  // The same loops with another extent of the outermost one; without it where that is 1.
  Loops outermost(std::int64_t extent0) const {
    Loops made;
    for (int i = 0; i < depth_; ++i) {
      if (i == 0 && extent0 == 1) continue;
      made.extents_[at(made.depth_)] = i == 0 ? extent0 : extent(i);
      for (int k = 0; k < K; ++k) made.steps_[at(k)][at(made.depth_)] = step(k, i);
      ++made.depth_;
    }
    return made;
  }

  int depth_ = 0;
  std::array<std::int64_t, kMost> extents_{};
  std::array<std::array<std::int64_t, kMost>, K> steps_{};
};

}  // namespace outsize::OUTSIZE_PLACE
