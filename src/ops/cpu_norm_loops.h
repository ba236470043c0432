#pragma once

#include "ops/cpu_support.h"

// The vectorized loops of norms over maps on the CPU: each works on consecutive positions of one channel block. Sums are taken in
// f32 over short runs that stay in the cache, and in f64 beyond.
namespace outsize::norm_loops {

// Positions of a run: a block of 16 channels takes 8 KiB of them.
constexpr std::int64_t kRun = 128;

// Count, mean and sum of squared deviations of every channel of a block.
template <int B>
struct Moments {
  double count;
  double mean[B];
  double m2[B];
};

// Adds a run: its mean first, then the deviations from it while it is in the cache (no cancellation), then both into `all`.
template <int B>
OUTSIZE_INLINE void add_run(const float* x, std::int64_t count, Moments<B>& all) {
  float sum[B] = {};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float* const p = x + i * B;
#pragma omp simd
    for (int c = 0; c < B; ++c) sum[c] += (p[c] + p[B + c]) + (p[2 * B + c] + p[3 * B + c]);
  }
  for (; i < count; ++i) {
#pragma omp simd
    for (int c = 0; c < B; ++c) sum[c] += x[i * B + c];
  }
  float mean[B];
  float rest[B] = {};
  float squares[B] = {};
  const float scale = 1.0f / static_cast<float>(count);
  for (int c = 0; c < B; ++c) mean[c] = sum[c] * scale;
  for (i = 0; i + 4 <= count; i += 4) {
    const float* const p = x + i * B;
#pragma omp simd
    for (int c = 0; c < B; ++c) {
      const float d0 = p[c] - mean[c];
      const float d1 = p[B + c] - mean[c];
      const float d2 = p[2 * B + c] - mean[c];
      const float d3 = p[3 * B + c] - mean[c];
      rest[c] += (d0 + d1) + (d2 + d3);
      squares[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
    }
  }
  for (; i < count; ++i) {
#pragma omp simd
    for (int c = 0; c < B; ++c) {
      const float d = x[i * B + c] - mean[c];
      rest[c] += d;
      squares[c] += d * d;
    }
  }
  const double own = static_cast<double>(count);
  const double total = all.count + own;
  for (int c = 0; c < B; ++c) {
    const double remainder = static_cast<double>(rest[c]);
    const double own_mean = static_cast<double>(mean[c]) + remainder / own;
    const double delta = own_mean - all.mean[c];
    all.mean[c] += delta * (own / total);
    all.m2[c] += static_cast<double>(squares[c]) - remainder * remainder / own + delta * delta * (all.count * own / total);
  }
  all.count = total;
}

template <int B>
OUTSIZE_INLINE void add_runs(const float* x, std::int64_t positions, double* moments) {
  auto& all = *reinterpret_cast<Moments<B>*>(moments);
  for (std::int64_t i = 0; i < positions; i += kRun) add_run<B>(x + i * B, std::min(kRun, positions - i), all);
}

// Merges the moments of these positions into `moments`: a count, then a mean a channel, then an m2 a channel.
OUTSIZE_CLONES static void add_moments(std::int64_t block, const float* x, std::int64_t positions, double* moments) {
  if (block == 16)
    add_runs<16>(x, positions, moments);
  else
    add_runs<8>(x, positions, moments);
}

// The factors of apply, a channel: y = (x - mean) * scale + shift. `mean` is rounded to f32 and `shift` makes up for it; in this
// form nothing cancels when the mean is far from zero. All three are zero in padding channels.
struct ApplyFactors {
  const float* mean;
  const float* scale;
  const float* shift;
  ApplyFactors at(std::int64_t channel) const {
    return {mean + channel, scale == nullptr ? nullptr : scale + channel, shift == nullptr ? nullptr : shift + channel};
  }
};

// Forward and backward both work y out here, so that backward finds the signs that forward found.
OUTSIZE_INLINE float normalized(float x, float mean, float scale, float shift) { return (x - mean) * scale + shift; }

template <int B, bool kResidual, bool kRelu>
OUTSIZE_INLINE void apply_lines(const ApplyFactors& factors, const float* x, const float* residual, float* y,
                                std::int64_t positions) {
  for (std::int64_t i = 0; i < positions * B; i += B) {
#pragma omp simd
    for (int c = 0; c < B; ++c) {
      float value = normalized(x[i + c], factors.mean[c], factors.scale[c], factors.shift[c]);
      if (kResidual) value += residual[i + c];
      y[i + c] = kRelu && value < 0 ? 0.0f : value;
    }
  }
}

template <int B>
OUTSIZE_INLINE void apply_any(bool relu, const ApplyFactors& factors, const float* x, const float* residual, float* y,
                              std::int64_t positions) {
  if (residual != nullptr)
    relu ? apply_lines<B, true, true>(factors, x, residual, y, positions)
         : apply_lines<B, true, false>(factors, x, residual, y, positions);
  else
    relu ? apply_lines<B, false, true>(factors, x, residual, y, positions)
         : apply_lines<B, false, false>(factors, x, residual, y, positions);
}

// y from x and, unless it is null, the residual; y may be either.
OUTSIZE_CLONES static void apply(std::int64_t block, bool relu, const ApplyFactors& factors, const float* x, const float* residual,
                                 float* y, std::int64_t positions) {
  if (block == 16)
    apply_any<16>(relu, factors, x, residual, y, positions);
  else
    apply_any<8>(relu, factors, x, residual, y, positions);
}

// What passes of dy: all, or if gated, what meets a norm above 0. The factors are those of apply.
template <bool kGated>
OUTSIZE_INLINE float passed(float dy, float x, const ApplyFactors& factors, int c) {
  if constexpr (kGated)
    if (normalized(x, factors.mean[c], factors.scale[c], factors.shift[c]) <= 0) return 0.0f;
  return dy;
}

template <int B, bool kGated>
OUTSIZE_INLINE void add_gradient_runs(const float* dy, const float* x, const ApplyFactors& factors, std::int64_t positions,
                                      double* sums) {
  const float* const mean = factors.mean;
  for (std::int64_t from = 0; from < positions; from += kRun) {
    const std::int64_t to = std::min(positions, from + kRun);
    float total[B] = {};
    float weighted[B] = {};
    std::int64_t i = from;
    for (; i + 4 <= to; i += 4) {
      const float* const g = dy + i * B;
      const float* const v = x + i * B;
#pragma omp simd
      for (int c = 0; c < B; ++c) {
        const float g0 = passed<kGated>(g[c], v[c], factors, c);
        const float g1 = passed<kGated>(g[B + c], v[B + c], factors, c);
        const float g2 = passed<kGated>(g[2 * B + c], v[2 * B + c], factors, c);
        const float g3 = passed<kGated>(g[3 * B + c], v[3 * B + c], factors, c);
        total[c] += (g0 + g1) + (g2 + g3);
        weighted[c] +=
            (g0 * (v[c] - mean[c]) + g1 * (v[B + c] - mean[c])) + (g2 * (v[2 * B + c] - mean[c]) + g3 * (v[3 * B + c] - mean[c]));
      }
    }
    for (; i < to; ++i) {
#pragma omp simd
      for (int c = 0; c < B; ++c) {
        const float g = passed<kGated>(dy[i * B + c], x[i * B + c], factors, c);
        total[c] += g;
        weighted[c] += g * (x[i * B + c] - mean[c]);
      }
    }
    for (int c = 0; c < B; ++c) {
      sums[c] += static_cast<double>(total[c]);
      sums[B + c] += static_cast<double>(weighted[c]);
    }
  }
}

template <int B>
OUTSIZE_INLINE void add_gradient_any(bool gated, const float* dy, const float* x, const ApplyFactors& factors,
                                     std::int64_t positions, double* sums) {
  gated ? add_gradient_runs<B, true>(dy, x, factors, positions, sums)
        : add_gradient_runs<B, false>(dy, x, factors, positions, sums);
}

// Adds Σ dy a channel, then Σ dy·(x − mean) a channel, to `sums`; if gated, of dy where the norm is above 0. Else the factors need
// have the mean alone.
OUTSIZE_CLONES static void add_gradient_sums(std::int64_t block, bool gated, const float* dy, const float* x,
                                             const ApplyFactors& factors, std::int64_t positions, double* sums) {
  if (block == 16)
    add_gradient_any<16>(gated, dy, x, factors, positions, sums);
  else
    add_gradient_any<8>(gated, dy, x, factors, positions, sums);
}

// dx = norm.scale * dy - (shift + (x - norm.mean) * slope); all are zero in padding channels.
struct GradFactors {
  ApplyFactors norm;  // its shift is null unless the norm gates dy
  const float* shift;
  const float* slope;
  GradFactors at(std::int64_t channel) const { return {norm.at(channel), shift + channel, slope + channel}; }
};

template <int B, bool kGated>
OUTSIZE_INLINE void grad_lines(bool owned, const GradFactors& factors, const float* dy, const float* x, float* dx,
                               std::int64_t positions) {
  const ApplyFactors& norm = factors.norm;
  if (owned) {
    for (std::int64_t i = 0; i < positions * B; i += B) {
#pragma omp simd
      for (int c = 0; c < B; ++c)
        dx[i + c] = norm.scale[c] * passed<kGated>(dy[i + c], x[i + c], norm, c) -
                    (factors.shift[c] + (x[i + c] - norm.mean[c]) * factors.slope[c]);
    }
    return;
  }
  for (std::int64_t i = 0; i < positions * B; i += B) {
#pragma omp simd
    for (int c = 0; c < B; ++c) dx[i + c] = norm.scale[c] * passed<kGated>(dy[i + c], x[i + c], norm, c);
  }
}

template <int B>
OUTSIZE_INLINE void grad_any(bool owned, const GradFactors& factors, const float* dy, const float* x, float* dx,
                             std::int64_t positions) {
  factors.norm.shift == nullptr ? grad_lines<B, false>(owned, factors, dy, x, dx, positions)
                                : grad_lines<B, true>(owned, factors, dy, x, dx, positions);
}

// dx, which may be dy. Positions outside the owned box get no mean terms: another call's owned box has them.
OUTSIZE_CLONES static void grad_positions(std::int64_t block, bool owned, const GradFactors& factors, const float* dy,
                                          const float* x, float* dx, std::int64_t positions) {
  if (block == 16)
    grad_any<16>(owned, factors, dy, x, dx, positions);
  else
    grad_any<8>(owned, factors, dy, x, dx, positions);
}

}  // namespace outsize::norm_loops
