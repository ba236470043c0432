#pragma once

#include <cmath>

#include "ops/both.h"

namespace outsize {

// What the norm of one channel does to an element, in f32: y = (x - mean) * scale + shift. Backward of a norm and relu works y out
// again from these, as forward did, and so finds the signs that forward found.
struct NormFactors {
  float mean, scale, shift;
};

// The factors of a channel of these moments. What the mean loses by rounding to f32 is made up for in the shift; not where the mean
// or the scale is infinite, for there it would make NaN of an infinite y, which has a sign.
inline OUTSIZE_BOTH NormFactors norm_factors(double mean, double inv_std, float gamma, float beta) {
  const double scale = inv_std * static_cast<double>(gamma);
  const float rounded = static_cast<float>(mean);
  const double lost = (mean - static_cast<double>(rounded)) * scale;
  const double shift = std::isfinite(lost) ? static_cast<double>(beta) - lost : static_cast<double>(beta);
  return {rounded, static_cast<float>(scale), static_cast<float>(shift)};
}

}  // namespace outsize
