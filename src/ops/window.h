#pragma once

#include <array>
#include <span>

#include "ops/expect.h"

namespace outsize {

constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

// The part of `range` inside [0, extent); [0, 0) when there is none.
constexpr Interval clip(Interval range, std::int64_t extent) {
  const Interval inside = intersect(range, {0, extent});
  return inside.empty() ? Interval{} : inside;
}

// Sliding windows over one dimension (SFT's σ and δ): output o reads the inputs o·stride − before + t·dilation for t in [0,
// kernel). Intervals are global; every result is clipped to the value it is about and is [0, 0) when nothing is left.
struct WindowAxis {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  std::int64_t input = 0;     // the input's extent
  std::int64_t dilation = 1;  // the step between taps

  // From a window's first tap to its last, both counted.
  constexpr std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
  // The number of windows; below 1 when the padded input is smaller than the kernel's reach.
  constexpr std::int64_t output() const { return floor_div(input + before + after - reach(), stride) + 1; }
  // Where tap t of window o lies in the input; outside [0, input) is padding.
  constexpr std::int64_t position(std::int64_t o, std::int64_t t) const { return o * stride - before + t * dilation; }
  // The inputs that these outputs read, with what lies between their taps.
  constexpr Interval inputs_of(Interval outputs) const {
    if (outputs.empty()) return {};
    return clip({position(outputs.lo, 0), position(outputs.hi - 1, 0) + reach()}, input);
  }
  // The outputs that reach over any of these inputs: o·stride − before < hi and o·stride − before + reach > lo.
  constexpr Interval outputs_of(Interval inputs) const {
    if (inputs.empty()) return {};
    return clip({floor_div(inputs.lo + before - reach(), stride) + 1, ceil_div(inputs.hi + before, stride)}, output());
  }
  // The taps of window o that lie in `inputs`.
  constexpr Interval taps(std::int64_t o, Interval inputs) const {
    return clip({ceil_div(inputs.lo - position(o, 0), dilation), ceil_div(inputs.hi - position(o, 0), dilation)}, kernel);
  }
};

// The windows of adaptive pooling: output o reads [⌊o·input/output⌋, ⌈(o+1)·input/output⌉).
struct AdaptiveAxis {
  std::int64_t input = 0;
  std::int64_t output = 0;

  constexpr Interval inputs_of(Interval outputs) const {
    if (outputs.empty()) return {};
    return {outputs.lo * input / output, ceil_div(outputs.hi * input, output)};
  }
  // ⌊o·input/output⌋ < hi and ⌈(o+1)·input/output⌉ > lo, solved for o.
  constexpr Interval outputs_of(Interval inputs) const {
    if (inputs.empty()) return {};
    return {inputs.lo * output / input, ceil_div(inputs.hi * output, input)};
  }
};

// The windows of a map of any rank: one axis for each spatial dimension, in their order; N is the same on both sides.
template <class Axis>
struct SpatialWindows {
  std::array<Axis, 3> axes{};
  int rank = 2;  // 2 or 3 spatial dimensions

  const Axis& operator[](int i) const { return axes[static_cast<std::size_t>(i)]; }
  Axis& operator[](int i) { return axes[static_cast<std::size_t>(i)]; }

  // The input box, with these channels, that an output box reads.
  Box inputs_of(const Box& output, Interval channels) const {
    Box box = output;
    box.set(1, channels);
    for (int i = 0; i < rank; ++i) box.set(2 + i, (*this)[i].inputs_of(output[2 + i]));
    return box;
  }
  // The output box, with these channels, that reads any of an input box.
  Box outputs_of(const Box& input, Interval channels) const {
    Box box = input;
    box.set(1, channels);
    for (int i = 0; i < rank; ++i) box.set(2 + i, (*this)[i].outputs_of(input[2 + i]));
    return box;
  }
};

// There must be a window, and each must hold an element: a maximum over padding alone is no number, and a tile of such windows
// would need nothing of the input. Throws UserError otherwise.
inline void expect_windows(const WindowAxis& axis, std::string_view name) {
  if (axis.output() < 1)
    user_error("the kernel must fit into the padded input, but along {} it is {} over an extent of {} with padding {} and {}", name,
               axis.reach(), axis.input, axis.before, axis.after);
  const std::int64_t last = axis.output() - 1;
  if (axis.inputs_of({0, 1}).empty() || axis.inputs_of({last, last + 1}).empty())
    user_error(
        "every window must hold an element of the input, but along {} one holds padding only: kernel {}, stride {}, extent {}, "
        "padding {} and {}; use less padding",
        name, axis.kernel, axis.stride, axis.input, axis.before, axis.after);
}

// The spatial extents of a map, or of a weight [O, C, k…].
inline std::span<const std::int64_t> spatial(const Dims& shape) { return {shape.begin() + 2, shape.end()}; }

// The names of spatial dimension i of 2 or 3.
inline std::string_view spatial_name(int rank, int i) {
  constexpr std::array<std::string_view, 3> kNames{"D", "H", "W"};
  return kNames[static_cast<std::size_t>(3 - rank + i)];
}

using SlidingWindows = SpatialWindows<WindowAxis>;

// The sliding windows of an op with the attributes `stride` (one a dimension; an empty list is the kernel's extents), `padding`
// (all before, then all after; an empty list is none) and, if `dilated`, `dilation` over an input of 2 or 3 spatial extents.
// Throws UserError when an attribute is malformed or a window is missing or holds no element.
inline SlidingWindows sliding_windows(const OpSite& site, std::span<const std::int64_t> kernel,
                                      std::span<const std::int64_t> extents, bool dilated = false) {
  const std::size_t rank = extents.size();
  const std::vector<std::int64_t>& stride = site.integers("stride");
  const std::vector<std::int64_t>& padding = site.integers("padding");
  const std::vector<std::int64_t>* dilation = dilated ? &expect_list(site, "dilation", rank, 1) : nullptr;
  if (!stride.empty()) expect_list(site, "stride", rank, 1);
  if (!padding.empty()) expect_list(site, "padding", 2 * rank, 0);
  SlidingWindows windows;
  windows.rank = static_cast<int>(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    WindowAxis& axis = windows.axes[i];
    axis.kernel = kernel[i];
    axis.stride = stride.empty() ? kernel[i] : stride[i];
    axis.before = padding.empty() ? 0 : padding[i];
    axis.after = padding.empty() ? 0 : padding[rank + i];
    axis.input = extents[i];
    axis.dilation = dilation ? (*dilation)[i] : 1;
    expect_windows(axis, spatial_name(windows.rank, static_cast<int>(i)));
  }
  return windows;
}

// The type of a map with one position a window.
inline ValueType windows_type(DType dtype, std::int64_t samples, std::int64_t channels, const SlidingWindows& windows) {
  ValueType type{dtype, {samples, channels}, Format::map};
  for (int i = 0; i < windows.rank; ++i) type.shape.push_back(windows[i].output());
  return type;
}

// Input dy must have one element a window.
inline void expect_dy(const OpSite& site, int i, const SlidingWindows& windows) {
  const Dims& dy = site.in(i).shape;
  std::string positions, extents;
  bool fits = dy.rank() == 2 + windows.rank;
  for (int axis = 0; axis < windows.rank; ++axis) {
    fits = fits && dy[2 + axis] == windows[axis].output();
    positions += fmt::format("{}{}", axis == 0 ? "" : " × ", windows[axis].output());
    extents += fmt::format("{}{}", axis == 0 ? "" : " × ", windows[axis].input);
  }
  if (!fits)
    user_error("input {} must have {} positions for an input of {}, found {}", input_name(site, i), positions, extents,
               to_string(site.in(i)));
}

// The attributes that sliding_windows reads for 2 or 3 spatial dimensions, `stride` being its default.
inline std::vector<AttributeSpec> sliding_windows_specs(int rank, std::vector<std::int64_t> stride) {
  const bool deep = rank == 3;
  return {{"stride", std::move(stride), deep ? "step of the window, [d, h, w]" : "step of the window, [h, w]"},
          {"padding", std::vector<std::int64_t>(static_cast<std::size_t>(2 * rank), 0),
           deep ? "positions added around the input, [front, top, left, back, bottom, right]"
                : "positions added around the input, [top, left, bottom, right]"}};
}

}  // namespace outsize
