#pragma once

#include <unordered_map>
#include <vector>

#include "base/box.h"
#include "base/id_vector.h"
#include "base/ids.h"

namespace outsize {

// A box that in a loop moves by `step` an iteration.
struct MovingBox {
  Box start;  // in the first iteration, and outside loops
  Dims step;  // rank 0: does not move

  MovingBox() = default;
  MovingBox(const Box& box, const Dims& by = {}) : start(box), step(by) {}

  bool moves() const { return step.rank() > 0; }
  Box at(std::int64_t iteration) const { return moves() ? start.shifted(step, iteration) : start; }
  bool operator==(const MovingBox&) const = default;
};

using BoxId = Id<struct BoxTag>;

// The boxes of a program, each once: most operands take a whole value, and values of one shape share that box. Two ids are equal if
// and only if their boxes are.
class BoxTable {
 public:
  // The id of `box`, which is added if it is new. References to boxes end here.
  BoxId add(const MovingBox& box);

  const MovingBox& operator[](BoxId id) const { return boxes_[id]; }
  bool has(BoxId id) const { return id && id.index < boxes_.size(); }
  std::size_t size() const { return static_cast<std::size_t>(boxes_.size()); }

 private:
  IdVector<BoxId, MovingBox> boxes_;
  std::unordered_multimap<std::size_t, BoxId> by_hash_;
};

}  // namespace outsize
