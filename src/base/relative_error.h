#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ranges>

namespace outsize {

// ‖found − expected‖₂ / ‖expected‖₂. Infinity if either has a NaN or an infinity, if they differ in length, and if `expected` is
// all zeros and `found` is not. Where `least_norm` is larger than ‖expected‖₂, the difference is divided by that.
template <std::ranges::contiguous_range Found, std::ranges::contiguous_range Expected>
double relative_l2_error(const Found& found, const Expected& expected, double least_norm = 0) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size()) return kInfinity;
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double a = static_cast<double>(found[i]);
    const double b = static_cast<double>(expected[i]);
    if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
    difference += (a - b) * (a - b);
    size += b * b;
  }
  if (difference == 0) return 0;
  return std::sqrt(difference) / std::max(std::sqrt(size), least_norm);
}

}  // namespace outsize
