#pragma once

#include "ops/resample.h"

namespace outsize {

// Means of the windows of adaptive pooling along one dimension.
struct AdaptiveMeanAxis : AdaptiveAxis {
  static constexpr bool kEven = true;
  constexpr double weight(std::int64_t o, std::int64_t) const { return 1.0 / static_cast<double>(inputs_of({o, o + 1}).size()); }
};

inline SpatialWindows<AdaptiveMeanAxis> adaptive_mean_windows(std::span<const std::int64_t> inputs,
                                                              std::span<const std::int64_t> outputs) {
  SpatialWindows<AdaptiveMeanAxis> windows;
  windows.rank = static_cast<int>(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) windows.axes[i] = {{inputs[i], outputs[i]}};
  return windows;
}

// The extents of y: attribute `output`, where an empty list means 1 along every dimension.
inline std::vector<std::int64_t> adaptive_output(const OpSite& site) {
  const auto rank = static_cast<std::size_t>(site.in(0).shape.rank() - 2);
  if (site.integers("output").empty()) return std::vector<std::int64_t>(rank, 1);
  return expect_list(site, "output", rank, 1);
}

// Of adaptive_avg_pool and of adaptive_avg_pool_grad.
inline SpatialWindows<AdaptiveMeanAxis> adaptive_avg_pool_windows(const OpSite& site) {
  return adaptive_mean_windows(spatial(site.in(0).shape), adaptive_output(site));
}
inline SpatialWindows<AdaptiveMeanAxis> adaptive_avg_pool_gradient_windows(const OpSite& site) {
  return adaptive_mean_windows(site.integers("input"), spatial(site.in(0).shape));
}

}  // namespace outsize
