#pragma once

#include "ops/pool.h"

namespace outsize {

// Means of sliding windows along one dimension.
struct AverageAxis : WindowAxis {
  static constexpr bool kEven = true;
  bool count_padding = true;

  constexpr double weight(std::int64_t o, std::int64_t) const {
    return 1.0 / static_cast<double>(count_padding ? kernel : inputs_of({o, o + 1}).size());
  }
};

// The sliding windows of a pooling as means.
inline SpatialWindows<AverageAxis> average_windows(const OpSite& site, const SlidingWindows& sliding) {
  SpatialWindows<AverageAxis> windows;
  windows.rank = sliding.rank;
  for (int i = 0; i < sliding.rank; ++i) windows[i] = {sliding[i], site.integer("count_include_pad") != 0};
  return windows;
}

// Of avg_pool and of avg_pool_grad.
inline SpatialWindows<AverageAxis> avg_pool_windows(const OpSite& site) {
  return average_windows(site, pool_windows(site, spatial(site.in(0).shape)));
}
inline SpatialWindows<AverageAxis> avg_pool_gradient_windows(const OpSite& site) {
  return average_windows(site, pool_gradient_windows(site));
}

}  // namespace outsize
