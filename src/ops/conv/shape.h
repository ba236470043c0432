#pragma once

#include "ops/window.h"

// What the convolutions, their gradients and the transposed ones share: how channels belong together and which attributes say so.
// A weight is [O, C / groups, k…]; for the transposed ones O are the channels of their input.
namespace outsize {

// Groups of channels: `outputs` of y are made from `inputs` of x. Intervals are whole groups, clipped to nothing.
struct Channels {
  std::int64_t groups = 1;
  std::int64_t inputs = 0;   // channels of x a group
  std::int64_t outputs = 0;  // channels of y a group

  // The channels of x in the groups of these channels of y.
  constexpr Interval inputs_of(Interval y) const { return {y.lo / outputs * inputs, ceil_div(y.hi, outputs) * inputs}; }
  // The channels of y in the groups of these channels of x.
  constexpr Interval outputs_of(Interval x) const { return {x.lo / inputs * outputs, ceil_div(x.hi, inputs) * outputs}; }
  // The columns of a weight (channels of x within a group) that these channels of x meet.
  constexpr Interval columns_of(Interval x) const { return groups == 1 ? x : Interval{0, inputs}; }
  // Where column c of the weights of output o lies among the channels of x.
  constexpr std::int64_t input(std::int64_t o, std::int64_t c) const { return o / outputs * inputs + c; }
  // The columns of the weights of output o among these channels of x.
  constexpr Interval columns(std::int64_t o, Interval x) const { return clip({x.lo - input(o, 0), x.hi - input(o, 0)}, inputs); }
};

// Of an image: so few that what would fill a block is mostly padding.
inline constexpr std::int64_t kStemChannels = 3;

// Whether the x of a convolution, input i, may be planar.
inline bool may_be_planar(const OpSite& site, int i) { return site.integer("groups") == 1 && site.in(i).shape[1] <= kStemChannels; }

// The channels of a convolution whose whole weight has this shape.
inline Channels channels_of(const OpSite& site, const Dims& weight) {
  const std::int64_t groups = site.integer("groups");
  return {groups, weight[1], weight[0] / groups};
}

// Input i must be a map with that many spatial dimensions, of f32 or f64.
inline void expect_spatial(const OpSite& site, int i, int rank) {
  expect_float(site, i);
  if (!is_map(site.in(i).format) || site.in(i).shape.rank() != 2 + rank)
    user_error("input {} must be a map {}, found {}", input_name(site, i), rank == 2 ? "[N, C, H, W]" : "[N, C, D, H, W]",
               to_string(site.in(i)));
}

// The attribute `groups`, which must divide these numbers of channels.
inline std::int64_t expect_groups(const OpSite& site, std::initializer_list<std::int64_t> channels) {
  const std::int64_t groups = site.integer("groups");
  for (const std::int64_t count : channels)
    if (groups < 1 || count % groups != 0) user_error("attribute groups must divide {} channels, found {}", count, groups);
  return groups;
}

// The attributes of a convolution with that many spatial dimensions, followed by `more`.
inline std::vector<AttributeSpec> conv_specs(int rank, std::initializer_list<AttributeSpec> more) {
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(rank), 1);
  std::vector<AttributeSpec> specs = sliding_windows_specs(rank, ones);
  specs.push_back(
      {"dilation", ones, rank == 2 ? "step between the kernel's taps, [h, w]" : "step between the kernel's taps, [d, h, w]"});
  specs.push_back({"groups", std::int64_t{1}, "groups of channels that are convolved apart"});
  specs.insert(specs.end(), more);
  return specs;
}

// The same attributes, for an op that shares them with the op at `site`.
inline Attributes conv_attributes(const OpSite& site) {
  return {{"stride", site.integers("stride")},
          {"padding", site.integers("padding")},
          {"dilation", site.integers("dilation")},
          {"groups", site.integer("groups")}};
}

// The spatial extents as an attribute.
inline std::vector<std::int64_t> spatial_list(const Dims& shape) { return {shape.begin() + 2, shape.end()}; }

// Rows and columns of a weight.
inline Box weight_box(const Dims& shape, Interval rows, Interval columns) {
  Box box = Box::whole(shape);
  box.set(0, rows);
  box.set(1, columns);
  return box;
}

inline Box vector_box(Interval range) { return {{range.lo}, {range.hi}}; }

// A value of a convolution in two calls.
struct MovedBox {
  const Box& from;
  const Box& to;

  std::int64_t by(int dim) const { return to.lo[dim] - from.lo[dim]; }
};

// Whether x, over which the windows slide, and y, which has one element a window, move by the same windows. `read`, of these two
// what the op reads, need not move where all of it is there. Other channels may lie otherwise in their groups.
inline bool windows_move_alike(const OpSite& site, const MovedBox& x, const MovedBox& y, const Box& read, const Dims& whole) {
  if (site.integer("groups") > 1 && (x.by(1) != 0 || y.by(1) != 0)) return false;
  const std::vector<std::int64_t>& stride = site.integers("stride");
  for (std::size_t i = 0; i < stride.size(); ++i) {
    const int dim = 2 + static_cast<int>(i);
    if (x.by(dim) != y.by(dim) * stride[i] && read[dim] != Interval{0, whole[dim]}) return false;
  }
  return true;
}

// 2 · |y| · inputs · taps: a convolution that reads so many channels of x for an element of y.
inline double conv_flops(const Box& y, std::int64_t inputs, std::int64_t taps) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(inputs * taps);
}

inline std::int64_t taps_of(const SlidingWindows& windows) {
  std::int64_t taps = 1;
  for (int i = 0; i < windows.rank; ++i) taps *= windows[i].kernel;
  return taps;
}

// The work of spreading a box of y over a box of x. At the border of a gathered box, y's windows reach outside x: what an element
// of x can receive bounds the work.
inline double spread_flops(const SlidingWindows& windows, const Channels& channels, const Box& y, const Box& x) {
  std::int64_t received = 1;
  for (int i = 0; i < windows.rank; ++i) received *= ceil_div(windows[i].kernel, windows[i].stride);
  const bool grouped = channels.groups > 1;
  return std::min(conv_flops(y, grouped ? channels.inputs : x.extent(1), taps_of(windows)),
                  conv_flops(x, grouped ? channels.outputs : y.extent(1), received));
}

}  // namespace outsize
