#pragma once

#include "base/box.h"

namespace outsize {

// Calls `function(position)` for every position of a box, the last dimension fastest.
template <class Function>
void for_each_position(const Box& box, Function&& function) {
  if (box.empty()) return;
  Dims position = box.lo;
  for (;;) {
    function(static_cast<const Dims&>(position));
    int dim = box.rank() - 1;
    while (dim >= 0 && ++position[dim] == box.hi[dim]) {
      position[dim] = box.lo[dim];
      --dim;
    }
    if (dim < 0) return;
  }
}

}  // namespace outsize
