#include <cmath>

#include "ops/cpu_support.h"
#include "ops/plain_rows.h"
#include "ops/registry.h"

// A row is read from memory once and from the nearest cache after that.
namespace outsize {
namespace {

struct Moments {
  float mean;
  float scale;  // 1 / deviation
};

// Deviations are taken from the mean itself, not from a difference of large sums.
OUTSIZE_CLONES Moments row_moments(const float* x, std::int64_t features, double eps) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < features; ++c) sum += x[c];
  const float mean = sum / static_cast<float>(features);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < features; ++c) squares += (x[c] - mean) * (x[c] - mean);
  const double variance = static_cast<double>(squares) / static_cast<double>(features);
  return {mean, static_cast<float>(1 / std::sqrt(variance + eps))};
}

OUTSIZE_CLONES void normalize(const float* x, Moments m, const float* gamma, const float* beta, float* y, std::int64_t features) {
  if (beta != nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < features; ++c) y[c] = (x[c] - m.mean) * m.scale * gamma[c] + beta[c];
  } else if (gamma != nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < features; ++c) y[c] = (x[c] - m.mean) * m.scale * gamma[c];
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < features; ++c) y[c] = (x[c] - m.mean) * m.scale;
  }
}

// With x̂ the normalized x and g = dy · gamma: dx = scale · (g − mean(g) − x̂ · mean(g · x̂)).
template <bool kGamma>
OUTSIZE_INLINE void grad_row_of(const float* dy, const float* x, Moments m, const float* gamma, float* dx, std::int64_t features) {
  float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t c = 0; c < features; ++c) {
    const float g = kGamma ? dy[c] * gamma[c] : dy[c];
    sum += g;
    product += g * ((x[c] - m.mean) * m.scale);
  }
  const float mean_g = sum / static_cast<float>(features);
  const float mean_product = product / static_cast<float>(features);
#pragma omp simd
  for (std::int64_t c = 0; c < features; ++c) {
    const float g = kGamma ? dy[c] * gamma[c] : dy[c];
    dx[c] = m.scale * (g - mean_g - (x[c] - m.mean) * m.scale * mean_product);
  }
}

OUTSIZE_CLONES void grad_row(const float* dy, const float* x, Moments m, const float* gamma, float* dx, std::int64_t features) {
  if (gamma != nullptr)
    grad_row_of<true>(dy, x, m, gamma, dx, features);
  else
    grad_row_of<false>(dy, x, m, gamma, dx, features);
}

// Adds what R rows give to the sums of all features.
template <int R>
OUTSIZE_INLINE void add_rows_of(const float* dy, const float* x, const float* mean, const float* scale, std::int64_t features,
                                float* dgamma, float* dbeta) {
#pragma omp simd
  for (std::int64_t c = 0; c < features; ++c) {
    float gamma_sum = 0, beta_sum = 0;
    for (int r = 0; r < R; ++r) {
      const float g = dy[r * features + c];
      gamma_sum += g * ((x[r * features + c] - mean[r]) * scale[r]);
      beta_sum += g;
    }
    dgamma[c] += gamma_sum;
    dbeta[c] += beta_sum;
  }
}

// Four rows at once, so that the sums are loaded and stored a quarter as often.
OUTSIZE_CLONES void add_rows(const float* dy, const float* x, const float* mean, const float* scale, std::int64_t rows,
                             std::int64_t features, float* dgamma, float* dbeta) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) add_rows_of<4>(dy + r * features, x + r * features, mean + r, scale + r, features, dgamma, dbeta);
  for (; r < rows; ++r) add_rows_of<1>(dy + r * features, x + r * features, mean + r, scale + r, features, dgamma, dbeta);
}

OUTSIZE_CLONES void add_to_doubles(const float* from, double* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] += static_cast<double>(from[i]);
}

// What the kernels of a call have in common: dense rows, and moments as all means and then all scales.
struct Rows {
  std::int64_t rows;
  std::int64_t features;
  std::int64_t bytes() const { return rows * features * size_of(DType::f32); }
};

class LayerNorm final : public Kernel {
 public:
  LayerNorm(const Rows& rows, int inputs, double eps) : r_(rows), inputs_(inputs), eps_(eps) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const gamma = inputs_ > 1 ? f32(run.in[1]) : nullptr;
    const float* const beta = inputs_ > 2 ? f32(run.in[2]) : nullptr;
    float* const y = f32(run.out[0]);
    float* const moments = f32(run.out[1]);
    parallel_for(r_.rows, 2 * r_.bytes(), [&](std::int64_t i) {
      const Moments m = row_moments(x + i * r_.features, r_.features, eps_);
      normalize(x + i * r_.features, m, gamma, beta, y + i * r_.features, r_.features);
      moments[i] = m.mean;
      moments[r_.rows + i] = m.scale;
    });
  }

 private:
  Rows r_;
  int inputs_;
  double eps_;
};

class LayerNormGrad final : public Kernel {
 public:
  LayerNormGrad(const Rows& rows, bool gamma) : r_(rows), has_gamma_(gamma) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const x = f32(run.in[1]);
    const float* const moments = f32(run.in[2]);
    const float* const gamma = has_gamma_ ? f32(run.in[3]) : nullptr;
    float* const dx = f32(run.out[0]);
    parallel_for(r_.rows, 3 * r_.bytes(), [&](std::int64_t i) {
      const std::int64_t row = i * r_.features;
      grad_row(dy + row, x + row, {moments[i], moments[r_.rows + i]}, gamma, dx + row, r_.features);
    });
  }

 private:
  Rows r_;
  bool has_gamma_;
};

// Rows in parts that their number alone decides, each summed in f64 from f32 sums of a few rows, and the parts in order: the result
// is the same with any number of threads.
class LayerNormGradParams final : public Kernel {
 public:
  explicit LayerNormGradParams(const Rows& rows) : r_(rows), parts_(std::clamp<std::int64_t>(rows.rows / kFewRows, 1, kMostParts)) {
    totals_ = workspace_.book(parts_ * 2 * r_.features * size_of(DType::f64));
    sums_ = workspace_.book(parts_ * 2 * r_.features * size_of(DType::f32));
  }
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const x = f32(run.in[1]);
    const float* const moments = f32(run.in[2]);
    const std::int64_t both = 2 * r_.features;  // dgamma, then dbeta
    double* const totals = f64(run.workspace + totals_);
    float* const all_sums = f32(run.workspace + sums_);
    parallel_for(parts_, 2 * r_.bytes(), [&](std::int64_t part) {
      double* const total = totals + part * both;
      float* const sums = all_sums + part * both;
      std::fill_n(total, both, 0.0);
      const std::int64_t end = r_.rows * (part + 1) / parts_;
      for (std::int64_t row = r_.rows * part / parts_; row < end; row += kFewRows) {
        const std::int64_t at = row * r_.features;
        std::fill_n(sums, both, 0.0f);
        add_rows(dy + at, x + at, moments + row, moments + r_.rows + row, std::min(kFewRows, end - row), r_.features, sums,
                 sums + r_.features);
        add_to_doubles(sums, total, both);
      }
    });
    float* const results[2] = {f32(run.out[0]), f32(run.out[1])};
    for (std::int64_t which = 0; which < 2; ++which)
      for (std::int64_t c = 0; c < r_.features; ++c) {
        double total = 0;
        for (std::int64_t part = 0; part < parts_; ++part) total += totals[(2 * part + which) * r_.features + c];
        results[which][c] = static_cast<float>(total);
      }
  }

 private:
  static constexpr std::int64_t kFewRows = 64;
  static constexpr std::int64_t kMostParts = 16;

  Rows r_;
  std::int64_t parts_;
  Workspace workspace_;
  std::int64_t totals_ = 0;
  std::int64_t sums_ = 0;
};

Rows rows_in(const Call& call) { return {rows_of(call.boxes.in[0]), last_range(call.boxes.in[0]).size()}; }

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<LayerNorm>(rows_in(call), call.site.inputs(), call.site.number("eps"));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<LayerNormGrad>(rows_in(call), call.site.inputs() > 3);
}

std::unique_ptr<Kernel> make_params(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<LayerNormGradParams>(rows_in(call));
}

}  // namespace

void cpu_layer_norm(KernelTable& table) {
  table.add("layer_norm", make_forward);
  table.add("layer_norm_grad", make_grad);
  table.add("layer_norm_grad_params", make_params);
}

}  // namespace outsize
