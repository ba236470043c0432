// The extents of samples: channels, then positions (rows, columns and so on); those of a batch have the number of samples before
// them.
#pragma once

#include "base/shape.h"

namespace outsize {

// The extents after the first: of one sample, where the first counts samples; of its positions, where the first counts channels.
inline Dims without_first(const Dims& shape) {
  Dims rest;
  for (int i = 1; i < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

// Whether a sample with these extents has something for every position: there are some, and its last extents are theirs.
inline bool follows(const Dims& extents, const Dims& positions) {
  const int leading = extents.rank() - positions.rank();
  if (positions.rank() == 0 || leading < 0) return false;
  for (int i = 0; i < positions.rank(); ++i)
    if (extents[leading + i] != positions[i]) return false;
  return true;
}

// `shape` with `positions` in place of its last extents.
inline Dims with_positions(Dims shape, const Dims& positions) {
  const int leading = shape.rank() - positions.rank();
  for (int i = 0; i < positions.rank(); ++i) shape[leading + i] = positions[i];
  return shape;
}

}  // namespace outsize
