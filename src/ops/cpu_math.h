#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/cpu_support.h"

// Elementary functions without branches or calls, for loops that the compiler vectorizes. Polynomials are minimax fits (least
// squares, reweighted) over the ranges named. The errors stated are the largest over every 997th f32, with and without FMA. NaN
// stays NaN.
namespace outsize::lane {

// e^x, within 1.3 ulp; below -87.3 as there, so that it is not 0 or denormal; infinite above 88.37 (n = 128).
OUTSIZE_INLINE float exp(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.7f ? 88.7f : x;
  // Adding 1.5 · 2²³ rounds to an integer n, which then is in the low bits.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts
  float p = 1.383671421e-03f;
  p = p * r + 8.374917321e-03f;
  p = p * r + 4.166823253e-02f;
  p = p * r + 1.666641831e-01f;
  p = p * r + 4.999999106e-01f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127u) << 23);
}

// 1 / (1 + e^-x), within 2.2 ulp.
OUTSIZE_INLINE float sigmoid(float x) { return 1.0f / (1.0f + lane::exp(-x)); }

// Within 1.4 ulp.
OUTSIZE_INLINE float tanh(float x) {
  const float size = std::fabs(x);
  const float far = 1.0f - 2.0f / (lane::exp(2.0f * size) + 1.0f);
  // x · p(x²) for |x| < 0.63.
  const float z = x * x;
  float p = -5.602736026e-03f;
  p = p * z + 2.053993382e-02f;
  p = p * z + -5.370531976e-02f;
  p = p * z + 1.333093196e-01f;
  p = p * z + -3.333325088e-01f;
  p = p * z + 1.0f;
  return size < 0.63f ? x * p : std::copysign(far, x);
}

// The standard normal distribution at x: its density, and the probability of less, from one exponential: beyond |x| there is
// e^(-x²/2) · t · q(t) with t = 1 / (1 + 0.26 |x|). The error of `below` is at most 2e-7 and, for x from -10 to 0, 4e-6 of it.
struct Normal {
  float density;
  float below;
};
OUTSIZE_INLINE Normal normal(float x) {
  const float e = lane::exp(-0.5f * x * x);
  const float t = 1.0f / (1.0f + 0.26f * std::fabs(x));
  float q = 3.050513007e-02f;
  q = q * t + -1.528299600e-01f;
  q = q * t + 2.514935434e-01f;
  q = q * t + -1.509514004e-01f;
  q = q * t + 1.609494388e-01f;
  q = q * t + 5.102704465e-02f;
  q = q * t + 1.030304059e-01f;
  q = q * t + 1.030167267e-01f;
  q = q * t + 1.037590578e-01f;
  const float beyond = e * (q * t);
  return {0.398942280f * e, x < 0 ? beyond : 1.0f - beyond};
}

// |x|^exponent, within 0.6 ulp: f64 inside, because the product exponent · log x would lose what a result of f32 needs. 0 and
// infinity as C's pow.
OUTSIZE_INLINE float power_of_size(float x, double exponent) {
  const float size = std::fabs(x);
  // size = m · 2^e with m in [√½, √2): the bits from √½ on count as the next power of two. Denormals count as 0.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(size);
  const std::int32_t e = static_cast<std::int32_t>(bits + (0x3F800000u - 0x3F3504F3u)) >> 23;
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(e - 127) << 23));
  const double s = (static_cast<double>(m) - 1.0) / (static_cast<double>(m) + 1.0);
  const double z = s * s;
  double q = 2.65001164522967847e-01;
  q = q * z + 3.21239717804985669e-01;
  q = q * z + 4.12174481586894348e-01;
  q = q * z + 5.77078310802304317e-01;
  q = q * z + 9.61796692772463935e-01;
  q = q * z + 2.88539008177850098e+00;
  double t = exponent * (static_cast<double>(e - 127) + s * q);  // log2 of the result
  t = t < -1000.0 ? -1000.0 : t;
  t = t > 1000.0 ? 1000.0 : t;
  const double shifted = t + 6755399441055744.0;  // 1.5 · 2⁵²
  const double r = t - (shifted - 6755399441055744.0);
  double p = 1.02043486549519002e-07;
  p = p * r + 1.32595414470415562e-06;
  p = p * r + 1.52526790628826348e-05;
  p = p * r + 1.54034342372710853e-04;
  p = p * r + 1.33335581934357350e-03;
  p = p * r + 9.61812919322646565e-03;
  p = p * r + 5.55041086646873572e-02;
  p = p * r + 2.40226506956434493e-01;
  p = p * r + 6.93147180559946174e-01;
  p = p * r + 1.0;
  const double result = p * std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023u) << 52);
  const float beyond = exponent > 0 ? size : 1.0f / size;  // of infinity and NaN
  const float below = exponent > 0 ? 0.0f : INFINITY;      // of 0
  return size < 1.17549435e-38f ? below : size <= 3.40282347e+38f ? static_cast<float>(result) : beyond;
}

}  // namespace outsize::lane
