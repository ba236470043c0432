#pragma once

#include <cstdint>
#include <functional>

#include "graph/types.h"

namespace outsize {

// How a backend stores spatial (map) values; plain values are row-major everywhere. Every piece is dense: the box it holds
// is stored as if it were a whole value of the box's shape.
//   channel_block 1:  N C D? H W
//   channel_block b:  N ⌈C/b⌉ D? H W b, the channels past C are zeros
//   channels_last:    N D? H W C; the block is 1. Planar maps too, for nothing is padded.
struct StorageRule {
  std::int64_t channel_block = 1;
  bool channels_last = false;

  bool operator==(const StorageRule&) const = default;
};

// Whether values of that format and rank are stored with their channels last.
constexpr bool stored_channels_last(const StorageRule& rule, Format format, int rank) {
  return rule.channels_last && is_map(format) && rank > 1;
}

// The number of elements, padding included, that a box of this shape takes.
std::int64_t stored_elements(const StorageRule& rule, Format format, const Dims& box_shape);

// The bytes that a box of this shape takes.
std::int64_t stored_bytes(const StorageRule& rule, const ValueType& type, const Dims& box_shape);

// The offset, in elements, of the element at `position` (global coordinates) in a piece that holds `box`.
std::int64_t stored_offset(const StorageRule& rule, Format format, const Box& box, const Dims& position);

// A box copy as nested loops over runs: run (i0, i1, …) starts at from + Σ i·from_stride, likewise `to`; the last loop is the
// innermost, unused loops count 1, an empty copy has length 0. Axes that are contiguous in both pieces are one run.
// Enumerating it allocates nothing, so that the executor can use it in a step.
struct CopyPlan {
  static constexpr int kLoops = 4;
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t length = 0;  // elements a run
  std::int64_t count[kLoops] = {1, 1, 1, 1};
  std::int64_t from_stride[kLoops] = {0, 0, 0, 0};
  std::int64_t to_stride[kLoops] = {0, 0, 0, 0};
};

// How to move `region` from a piece that holds `from_box` to one that holds `to_box` (both contain `region`).
// For blocked maps the region's channels must start at a block boundary of both pieces, and end at one or where both pieces end.
CopyPlan plan_copy(const StorageRule& rule, Format format, const Box& from_box, const Box& to_box, const Box& region);

}  // namespace outsize
