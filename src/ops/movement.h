#pragma once

#include "ops/broadcast.h"

// What ops share that only move elements: slice, pad, permute, concat.
namespace outsize {

// Input i must be f32, f64 or i32.
inline void expect_movable(const OpSite& site, int i) {
  if (!is_float(site.in(i).dtype) && site.in(i).dtype != DType::i32)
    user_error("input {} must be f32, f64 or i32, found {}", input_name(site, i), to_string(site.in(i)));
}

// A value of that shape and format must be possible: maps have rank 4 or 5. Throws UserError otherwise.
inline void expect_map_rank(const Dims& shape, Format format) {
  if (format == Format::map && shape.rank() != 4 && shape.rank() != 5)
    user_error("a map must have shape [N, C, H, W] or [N, C, D, H, W], found {}", to_string(shape));
}

// The box shifted by `delta` and clipped to a value of `shape`; none where nothing is left.
inline Box shifted_into(const Box& box, const Dims& delta, const Dims& shape) {
  const Box inside = intersect(box.shifted(delta), Box::whole(shape));
  return inside.empty() ? Box::none(shape.rank()) : inside;
}

// `box` with all channels where the value is a map: pieces of maps are cut at channel blocks at most, which an op that moves
// channels cannot know.
inline Box with_all_channels(Box box, const ValueType& type) {
  if (type.format == Format::map && !box.empty()) box.set(1, {0, type.shape[1]});
  return box;
}

inline Dims negated(const std::vector<std::int64_t>& list) {
  Dims dims;
  for (std::int64_t number : list) dims.push_back(-number);
  return dims;
}

}  // namespace outsize
