#pragma once

#include "ops/window.h"

// Average pooling, adaptive pooling and resizing are one thing: linear, and separable into the spatial dimensions. Along each,
// output o is Σ weight(o, i) · x[i] over the inputs i of o. An Axis says so with
//   inputs_of, outputs_of   as WindowAxis does; exact for a single output or input: every pair they name has a weight
//   weight(o, i)            of such a pair
//   kEven                   whether an output has all its inputs with the same weight: a mean
// all of them constexpr, for kernels of the card call them too.
// The gradient is the same with the sides exchanged. Weights do not depend on boxes, so that parts of a window add up.
namespace outsize {

// Along one dimension, what a result of the forward (backward) op is made of.
template <class Axis>
struct Forward {
  static constexpr bool kEven = Axis::kEven;
  const Axis& axis;
  constexpr Interval sources(std::int64_t o) const { return axis.inputs_of({o, o + 1}); }
  constexpr double weight(std::int64_t o, std::int64_t i) const { return axis.weight(o, i); }
};
template <class Axis>
struct Backward {
  static constexpr bool kEven = false;
  const Axis& axis;
  constexpr Interval sources(std::int64_t i) const { return axis.outputs_of({i, i + 1}); }
  constexpr double weight(std::int64_t i, std::int64_t o) const { return axis.weight(o, i); }
};

// The boxes, combination and cost that forward and backward kinds of such an op share.
template <class Axis>
class ResampleOp : public OpDef {
 public:
  CallBoxes gather(const OpSite& site, const Box& output) const final { return {{from(site, output)}, {output}}; }
  CallBoxes push(const OpSite& site, const Box& driver) const final { return {{driver}, {to(site, driver)}}; }
  Combine combine(const OpSite&, int) const final { return Combine::sum; }
  Cost cost(const OpSite& site, const CallBoxes& boxes) const final {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = 2 * static_cast<double>(std::max(boxes.in[0].elements(), boxes.out[0].elements()));
    return cost;
  }

 protected:
  enum class Direction : std::uint8_t { forward, backward };
  explicit ResampleOp(Direction direction) : direction_(direction) {}
  // The windows of the forward op. Throws UserError where the attributes or the input do not fit.
  virtual SpatialWindows<Axis> windows(const OpSite& site) const = 0;

 private:
  Box from(const OpSite& site, const Box& box) const {
    return direction_ == Direction::forward ? windows(site).inputs_of(box, box[1]) : windows(site).outputs_of(box, box[1]);
  }
  Box to(const OpSite& site, const Box& box) const {
    return direction_ == Direction::forward ? windows(site).outputs_of(box, box[1]) : windows(site).inputs_of(box, box[1]);
  }

  Direction direction_;
};

// The extents of x, which gradients are told.
inline const AttributeSpec kInputExtents{"input", std::vector<std::int64_t>{}, "spatial extents of x (required)"};

// The type of a map like `map` with other spatial extents.
inline ValueType with_spatial(const ValueType& map, std::span<const std::int64_t> extents) {
  ValueType type{map.dtype, {map.shape[0], map.shape[1]}, Format::map};
  for (std::int64_t extent : extents) type.shape.push_back(extent);
  return type;
}

// The spatial extents of a map as a list attribute.
inline std::vector<std::int64_t> spatial_list(const Dims& shape) { return {spatial(shape).begin(), spatial(shape).end()}; }

}  // namespace outsize
