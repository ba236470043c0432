#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <ranges>

#include "base/relative_error.h"

// Comparisons of tensors as rows of numbers. Where numbers are expected, neither a NaN nor an infinity passes: an error that is not
// below a tolerance may be NaN, for which every comparison is false.
namespace outsize {

// EXPECT_TRUE(is_close(found, expected, 1e-5)): the relative error is at most the tolerance. A failure names the error and the
// element that is farthest off.
template <std::ranges::contiguous_range Found, std::ranges::contiguous_range Expected>
testing::AssertionResult is_close(const Found& found, const Expected& expected, double tolerance, double least_norm = 0) {
  if (found.size() != expected.size())
    return testing::AssertionFailure() << found.size() << " numbers where " << expected.size() << " are expected";
  const double error = relative_l2_error(found, expected, least_norm);
  if (error <= tolerance) return testing::AssertionSuccess();
  std::size_t worst = 0;
  double most = -1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    const double size = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    if (size > most) {
      most = size;
      worst = i;
    }
  }
  return testing::AssertionFailure() << "relative error " << error << ", allowed " << tolerance << "; element " << worst << " is "
                                     << found[worst] << ", expected " << expected[worst];
}

}  // namespace outsize
