#pragma once

#include <array>

#include "ops/expect.h"

namespace outsize {

constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

// The part of `range` inside [0, extent); [0, 0) when there is none.
constexpr Interval clip(Interval range, std::int64_t extent) {
  const Interval inside = intersect(range, {0, extent});
  return inside.empty() ? Interval{} : inside;
}

// Sliding windows over one dimension (SFT's σ and δ): output o reads the inputs o·stride − before + [0, kernel). Intervals are
// global; every result is clipped to the value it is about and is [0, 0) when nothing is left.
struct WindowAxis {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  std::int64_t input = 0;  // the input's extent

  // The number of windows; below 1 when the padded input is smaller than the kernel.
  constexpr std::int64_t output() const { return floor_div(input + before + after - kernel, stride) + 1; }
  // Where tap t of window o lies in the input; outside [0, input) is padding.
  constexpr std::int64_t position(std::int64_t o, std::int64_t t) const { return o * stride - before + t; }
  // The inputs that these outputs read.
  constexpr Interval inputs_of(Interval outputs) const {
    if (outputs.empty()) return {};
    return clip({position(outputs.lo, 0), position(outputs.hi - 1, kernel)}, input);
  }
  // The outputs that read any of these inputs: o·stride − before < hi and o·stride − before + kernel > lo.
  constexpr Interval outputs_of(Interval inputs) const {
    if (inputs.empty()) return {};
    return clip({floor_div(inputs.lo + before - kernel, stride) + 1, ceil_div(inputs.hi + before, stride)}, output());
  }
  // The taps of window o that lie in `inputs`.
  constexpr Interval taps(std::int64_t o, Interval inputs) const {
    return clip({inputs.lo - position(o, 0), inputs.hi - position(o, 0)}, kernel);
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

// The windows of a map [N, C, H, W]: one axis for H, one for W; N is the same on both sides.
template <class Axis>
struct MapWindow {
  Axis h;
  Axis w;

  // The input box, with these channels, that an output box reads.
  Box inputs_of(const Box& output, Interval channels) const {
    return box(output[0], channels, h.inputs_of(output[2]), w.inputs_of(output[3]));
  }
  // The output box, with these channels, that reads any of an input box.
  Box outputs_of(const Box& input, Interval channels) const {
    return box(input[0], channels, h.outputs_of(input[2]), w.outputs_of(input[3]));
  }

 private:
  static Box box(Interval n, Interval c, Interval rows, Interval columns) {
    return {{n.lo, c.lo, rows.lo, columns.lo}, {n.hi, c.hi, rows.hi, columns.hi}};
  }
};

using SlidingWindow = MapWindow<WindowAxis>;
using AdaptiveWindow = MapWindow<AdaptiveAxis>;

// There must be a window, and each must hold an element: a maximum over padding alone is no number, and a tile of such windows
// would need nothing of the input. Throws UserError otherwise.
inline void expect_windows(const WindowAxis& axis, std::string_view name) {
  if (axis.output() < 1)
    user_error("the kernel must fit into the padded input, but along {} it is {} over an extent of {} with padding {} and {}", name,
               axis.kernel, axis.input, axis.before, axis.after);
  const std::int64_t last = axis.output() - 1;
  if (axis.inputs_of({0, 1}).empty() || axis.inputs_of({last, last + 1}).empty())
    user_error(
        "every window must hold an element of the input, but along {} one holds padding only: kernel {}, stride {}, extent {}, "
        "padding {} and {}; use less padding",
        name, axis.kernel, axis.stride, axis.input, axis.before, axis.after);
}

// The sliding windows of an op with the attributes `stride` [h, w] and `padding` [top, left, bottom, right] over an input of H × W.
// Throws UserError when an attribute is malformed or a window is missing or holds no element.
inline SlidingWindow sliding_window(const OpSite& site, std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t height,
                                    std::int64_t width) {
  const std::vector<std::int64_t>& stride = expect_list(site, "stride", 2, 1);
  const std::vector<std::int64_t>& padding = expect_list(site, "padding", 4, 0);
  const SlidingWindow windows{{kernel_h, stride[0], padding[0], padding[2], height},
                              {kernel_w, stride[1], padding[1], padding[3], width}};
  expect_windows(windows.h, "H");
  expect_windows(windows.w, "W");
  return windows;
}

// Input dy must have one element a window.
inline void expect_dy(const OpSite& site, int i, const SlidingWindow& windows) {
  const Dims& dy = site.in(i).shape;
  if (dy[2] != windows.h.output() || dy[3] != windows.w.output())
    user_error("input {} must have {} × {} positions for an input of {} × {}, found {}", input_name(site, i), windows.h.output(),
               windows.w.output(), windows.h.input, windows.w.input, to_string(site.in(i)));
}

// The attributes that sliding_window reads, for the specs of an op.
inline std::vector<AttributeSpec> sliding_window_specs(std::vector<std::int64_t> stride) {
  return {{"stride", std::move(stride), "step of the window, [h, w]"},
          {"padding", std::vector<std::int64_t>{0, 0, 0, 0}, "positions added around the input, [top, left, bottom, right]"}};
}

// The attributes of sliding_window, for a gradient op that shares them with the op at `site`.
inline Attributes sliding_window_attributes(const OpSite& site) {
  return {{"stride", site.integers("stride")}, {"padding", site.integers("padding")}};
}

}  // namespace outsize
