#pragma once

#include "ops/resample.h"

namespace outsize {

// One dimension of resizing, as PyTorch's interpolate but in whole numbers: output o lies at the input coordinate
//   s(o) = max(0, (o·step + start) / unit)
// nearest: it is the element at ⌊s⌋. linear: it lies between ⌊s⌋ and ⌈s⌉ (the last element beyond it), weighted by distance.
struct ResizeAxis {
  static constexpr bool kEven = false;
  std::int64_t input = 1;
  std::int64_t output = 1;
  std::int64_t step = 1;
  std::int64_t start = 0;
  std::int64_t unit = 1;
  bool linear = false;

  // s = o·input/output: the element that covers the start of the output.
  static constexpr ResizeAxis nearest(std::int64_t input, std::int64_t output) { return {input, output, input, 0, output, false}; }
  // s = (o + ½)·input/output − ½: the centres of elements are apart evenly.
  static constexpr ResizeAxis centred(std::int64_t input, std::int64_t output) {
    return {input, output, 2 * input, input - output, 2 * output, true};
  }
  // s = o·(input − 1)/(output − 1): the first and last elements of both sides coincide.
  static constexpr ResizeAxis cornered(std::int64_t input, std::int64_t output) {
    if (output == 1) return {input, output, 0, 0, 1, true};
    return {input, output, input - 1, 0, output - 1, true};
  }

  constexpr std::int64_t numerator(std::int64_t o) const { return std::max<std::int64_t>(0, o * step + start); }
  // The inputs o reads, first and last: one or two.
  constexpr std::int64_t first(std::int64_t o) const { return std::min(numerator(o) / unit, input - 1); }
  constexpr std::int64_t last(std::int64_t o) const {
    return linear ? std::min(ceil_div(numerator(o), unit), input - 1) : first(o);
  }

  constexpr Interval inputs_of(Interval outputs) const {
    if (outputs.empty()) return {};
    return {first(outputs.lo), last(outputs.hi - 1) + 1};
  }
  // The outputs with last(o) >= lo and first(o) < hi, that is with s > lo − 1 (nearest: s >= lo) and s < hi, solved for o. At the
  // ends of the input the bounds are open, for there s is cut off.
  constexpr Interval outputs_of(Interval inputs) const {
    if (inputs.empty()) return {};
    if (step == 0) return inputs.lo <= 0 ? Interval{0, output} : Interval{};
    const std::int64_t lo = inputs.lo <= 0 ? 0
                            : linear       ? floor_div((inputs.lo - 1) * unit - start, step) + 1
                                           : ceil_div(inputs.lo * unit - start, step);
    const std::int64_t hi = inputs.hi >= input ? output : ceil_div(inputs.hi * unit - start, step);
    return clip({lo, hi}, output);
  }
  constexpr double weight(std::int64_t o, std::int64_t i) const {
    if (first(o) == last(o)) return 1;
    const double beyond = static_cast<double>(numerator(o) % unit) / static_cast<double>(unit);
    return i == first(o) ? 1 - beyond : beyond;
  }
};

inline SpatialWindows<ResizeAxis> resize_windows(const OpSite& site, std::span<const std::int64_t> inputs,
                                                 std::span<const std::int64_t> outputs) {
  SpatialWindows<ResizeAxis> windows;
  windows.rank = static_cast<int>(inputs.size());
  const bool linear = site.word("mode") == "linear";
  const bool corners = site.integer("align_corners") != 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    windows.axes[i] = !linear   ? ResizeAxis::nearest(inputs[i], outputs[i])
                      : corners ? ResizeAxis::cornered(inputs[i], outputs[i])
                                : ResizeAxis::centred(inputs[i], outputs[i]);
  return windows;
}

// Of upsample and of upsample_grad.
inline SpatialWindows<ResizeAxis> upsample_windows(const OpSite& site) {
  return resize_windows(site, spatial(site.in(0).shape), site.integers("output"));
}
inline SpatialWindows<ResizeAxis> upsample_gradient_windows(const OpSite& site) {
  return resize_windows(site, site.integers("input"), spatial(site.in(0).shape));
}

}  // namespace outsize
