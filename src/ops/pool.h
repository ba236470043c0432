#pragma once

#include "ops/resample.h"

// What max_pool and avg_pool share: the attributes of their windows.
namespace outsize {

// The kernel's extents: attribute `kernel`, where an empty list means 2 along every dimension.
inline std::vector<std::int64_t> pool_kernel(const OpSite& site, std::size_t rank) {
  if (site.integers("kernel").empty()) return std::vector<std::int64_t>(rank, 2);
  return expect_list(site, "kernel", rank, 1);
}

// The windows over an input of 2 or 3 spatial extents. Throws UserError when an attribute is malformed.
inline SlidingWindows pool_windows(const OpSite& site, std::span<const std::int64_t> extents) {
  return sliding_windows(site, pool_kernel(site, extents.size()), extents);
}

// The attributes of the windows and then `more`.
inline std::vector<AttributeSpec> pool_specs(std::vector<AttributeSpec> more) {
  std::vector<AttributeSpec> specs{
      {"kernel", std::vector<std::int64_t>{}, "extents of the window, [h, w] or [d, h, w]; without it 2 along each"},
      {"stride", std::vector<std::int64_t>{}, "step of the window, a number each; without it the kernel's extents"},
      {"padding", std::vector<std::int64_t>{}, "positions added around the input, all before, then all after; without it none"}};
  specs.insert(specs.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return specs;
}

// The attributes of a pooling's gradient.
inline Attributes pool_gradient_attributes(const OpSite& site) {
  return {{"kernel", site.integers("kernel")},
          {"stride", site.integers("stride")},
          {"padding", site.integers("padding")},
          {"input", spatial_list(site.in(0).shape)}};
}

// The windows of a pooling's gradient, whose input 0 is dy.
inline SlidingWindows pool_gradient_windows(const OpSite& site) {
  const auto rank = static_cast<std::size_t>(site.in(0).shape.rank() - 2);
  return pool_windows(site, expect_list(site, "input", rank, 1));
}

}  // namespace outsize
