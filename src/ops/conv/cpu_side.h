#pragma once

#include "ops/cpu_support.h"
#include "ops/window.h"

// How our own loops over convolutions find the rows and columns that meet.
namespace outsize {

// A map piece by global positions; in two dimensions D is one position.
struct Side {
  Side(const StorageRule& storage, const Box& box)
      : piece(storage, box),
        depths(box.rank() > 4 ? box[2] : Interval{0, 1}),
        heights(box[box.rank() - 2]),
        columns(box[box.rank() - 1]) {}

  MapPiece piece;
  Interval depths;
  Interval heights;
  Interval columns;

  std::int64_t rows() const { return piece.planes() * piece.depth * piece.height; }
  std::int64_t row(std::int64_t plane, std::int64_t depth, std::int64_t height) const {
    return ((plane * piece.depth + depth - depths.lo) * piece.height + height - heights.lo) * piece.row();
  }
};

// The windows of a convolution along D, H and W; in two dimensions D's has one position.
struct SideWindows {
  explicit SideWindows(const SlidingWindows& windows)
      : deep(windows.rank == 3 ? windows[0] : WindowAxis{}), high(windows[windows.rank - 2]), wide(windows[windows.rank - 1]) {}

  WindowAxis deep;
  WindowAxis high;
  WindowAxis wide;
};

// The outputs whose tap t lies in these inputs.
inline Interval meeting(const WindowAxis& axis, std::int64_t t, Interval inputs, Interval outputs) {
  const std::int64_t offset = axis.before - t * axis.dilation;
  return intersect(outputs, {ceil_div(inputs.lo + offset, axis.stride), ceil_div(inputs.hi + offset, axis.stride)});
}

}  // namespace outsize
