#include "ops/conv/cpu_depthwise.h"

#include "ops/conv/cpu_side.h"

namespace outsize {
namespace {

// to[i] += weight · from[i] for `count` positions, `to_step` and `from_step` positions apart.
template <int B>
OUTSIZE_INLINE void add_row_of(float* __restrict to, std::int64_t to_step, const float* __restrict from, std::int64_t from_step,
                               const float* __restrict weight, std::int64_t count) {
  float own[B];
  for (int c = 0; c < B; ++c) own[c] = weight[c];
  for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (int c = 0; c < B; ++c) to[i * to_step * B + c] += own[c] * from[i * from_step * B + c];
}
OUTSIZE_CLONES void add_row(std::int64_t block, float* to, std::int64_t to_step, const float* from, std::int64_t from_step,
                            const float* weight, std::int64_t count) {
  if (block == 16)
    add_row_of<16>(to, to_step, from, from_step, weight, count);
  else
    add_row_of<8>(to, to_step, from, from_step, weight, count);
}

// sums += Σ y[i] · x[i · step], taken in f32 over a row and in f64 over rows.
template <int B>
OUTSIZE_INLINE void add_dot_of(const float* y, const float* x, std::int64_t step, std::int64_t count, double* sums) {
  constexpr int kChains = 4;  // as many sums at once as a product's latency needs
  float run[kChains][B] = {};
  std::int64_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (int chain = 0; chain < kChains; ++chain)
      for (int c = 0; c < B; ++c) run[chain][c] += y[(i + chain) * B + c] * x[(i + chain) * step * B + c];
  for (; i < count; ++i)
    for (int c = 0; c < B; ++c) run[0][c] += y[i * B + c] * x[i * step * B + c];
  for (int c = 0; c < B; ++c) sums[c] += static_cast<double>((run[0][c] + run[1][c]) + (run[2][c] + run[3][c]));
}
OUTSIZE_CLONES void add_dot(std::int64_t block, const float* y, const float* x, std::int64_t step, std::int64_t count,
                            double* sums) {
  if (block == 16)
    add_dot_of<16>(y, x, step, count, sums);
  else
    add_dot_of<8>(y, x, step, count, sums);
}

void add_sum(std::int64_t block, const float* y, std::int64_t count, double* sums) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t c = 0; c < block; ++c) sums[c] += static_cast<double>(y[i * block + c]);
}

// What the three kernels share: which rows and columns meet at a tap.
class Depthwise : public Kernel {
 public:
  Depthwise(const ConvProblem& problem, const ConvGeometry& geometry)
      : problem_(problem),
        x_(problem.storage, geometry.x),
        y_(problem.storage, geometry.y),
        windows_(geometry.windows),
        taps_(geometry.taps()) {}
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return "loops:depthwise"; }

 protected:
  // The output whose tap t is this input, if there is one among `outputs`.
  static std::optional<std::int64_t> output_at(const WindowAxis& axis, std::int64_t t, std::int64_t input, Interval outputs) {
    const Interval found = meeting(axis, t, {input, input + 1}, outputs);
    return found.empty() ? std::nullopt : std::optional(found.lo);
  }
  static bool holds(Interval range, std::int64_t position) { return position >= range.lo && position < range.hi; }

  // The weights in blocks, taps before channels, and the bias, or zeros.
  void book_weights() {
    const MapPiece& piece = x_.piece;
    weights_ = workspace_.book(piece.padded_channels() * taps_ * size_of(DType::f32));
    bias_ = workspace_.book(piece.padded_channels() * size_of(DType::f32));
  }
  void load_weights(const KernelRun& run) const {
    const MapPiece& piece = x_.piece;
    float* const blocked = f32(run.workspace + weights_);
    float* const bias = f32(run.workspace + bias_);
    for (std::int64_t c = 0; c < piece.padded_channels(); ++c) {
      const bool real = c < piece.channels;
      for (std::int64_t t = 0; t < taps_; ++t)
        blocked[(c / piece.block * taps_ + t) * piece.block + c % piece.block] = real ? f32(run.in[1])[c * taps_ + t] : 0.0f;
      bias[c] = real && problem_.bias ? f32(run.in[2])[c] : 0.0f;
    }
  }
  // The weights of tap 0 of a block of channels.
  const float* weights(const KernelRun& run, std::int64_t channel_block) const {
    return f32(run.workspace + weights_) + channel_block * taps_ * x_.piece.block;
  }
  void start_row(const KernelRun& run, const MapPiece& piece, std::int64_t channel_block, float* row) const {
    const float* const lanes = f32(run.workspace + bias_) + channel_block * piece.block;
    for (std::int64_t i = 0; i < piece.width; ++i) std::copy_n(lanes, piece.block, row + i * piece.block);
  }
  std::int64_t tap(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return (i * windows_.high.kernel + j) * windows_.wide.kernel + k;
  }

  ConvProblem problem_;
  Side x_;
  Side y_;
  SideWindows windows_;
  std::int64_t taps_;
  Workspace workspace_;
  std::int64_t weights_ = 0;
  std::int64_t bias_ = 0;
};

class DepthwiseForward final : public Depthwise {
 public:
  DepthwiseForward(const ConvProblem& problem, const ConvGeometry& geometry) : Depthwise(problem, geometry) { book_weights(); }

  void run(const KernelRun& run) const override {
    load_weights(run);
    // Where x and y lie is taken from the run: windows wider than x may leave it where it is while y moves.
    const Side x_side(problem_.storage, run.in_boxes[0]);
    const Side y_side(problem_.storage, run.out_boxes[0]);
    const MapPiece& y = y_side.piece;
    const float* const x = f32(run.in[0]);
    parallel_for(y_side.rows(), y.elements() * 4 * taps_, [&](std::int64_t n) {
      const std::int64_t plane = n / (y.depth * y.height);
      const std::int64_t depth = y_side.depths.lo + n / y.height % y.depth;
      const std::int64_t height = y_side.heights.lo + n % y.height;
      float* const row = f32(run.out[0]) + n * y.row();
      const float* const own = weights(run, plane % y.blocks);
      start_row(run, y, plane % y.blocks, row);
      for (std::int64_t i = 0; i < windows_.deep.kernel; ++i)
        for (std::int64_t j = 0; j < windows_.high.kernel; ++j) {
          const std::int64_t x_depth = windows_.deep.position(depth, i);
          const std::int64_t x_height = windows_.high.position(height, j);
          if (!holds(x_side.depths, x_depth) || !holds(x_side.heights, x_height)) continue;
          const float* const from = x + x_side.row(plane, x_depth, x_height);
          for (std::int64_t k = 0; k < windows_.wide.kernel; ++k) {
            const Interval columns = meeting(windows_.wide, k, x_side.columns, y_side.columns);
            if (columns.empty()) continue;
            add_row(y.block, row + (columns.lo - y_side.columns.lo) * y.block, 1,
                    from + (windows_.wide.position(columns.lo, k) - x_side.columns.lo) * y.block, windows_.wide.stride,
                    own + tap(i, j, k) * y.block, columns.size());
          }
        }
      if (problem_.relu)
        for (std::int64_t e = 0; e < y.row(); ++e) row[e] = std::max(row[e], 0.0f);
    });
  }
};

class DepthwiseSpread final : public Depthwise {
 public:
  DepthwiseSpread(const ConvProblem& problem, const ConvGeometry& geometry) : Depthwise(problem, geometry) { book_weights(); }

  void run(const KernelRun& run) const override {
    load_weights(run);
    const Side x_side(problem_.storage, run.out_boxes[0]);
    const Side y_side(problem_.storage, run.in_boxes[0]);
    const MapPiece& x = x_side.piece;
    const float* const y = f32(run.in[0]);
    parallel_for(x_side.rows(), x.elements() * 4 * taps_, [&](std::int64_t n) {
      const std::int64_t plane = n / (x.depth * x.height);
      const std::int64_t depth = x_side.depths.lo + n / x.height % x.depth;
      const std::int64_t height = x_side.heights.lo + n % x.height;
      float* const row = f32(run.out[0]) + n * x.row();
      const float* const own = weights(run, plane % x.blocks);
      start_row(run, x, plane % x.blocks, row);
      for (std::int64_t i = 0; i < windows_.deep.kernel; ++i)
        for (std::int64_t j = 0; j < windows_.high.kernel; ++j) {
          const std::optional<std::int64_t> y_depth = output_at(windows_.deep, i, depth, y_side.depths);
          const std::optional<std::int64_t> y_height = output_at(windows_.high, j, height, y_side.heights);
          if (!y_depth || !y_height) continue;
          const float* const from = y + y_side.row(plane, *y_depth, *y_height);
          for (std::int64_t k = 0; k < windows_.wide.kernel; ++k) {
            const Interval columns = meeting(windows_.wide, k, x_side.columns, y_side.columns);
            if (columns.empty()) continue;
            add_row(x.block, row + (windows_.wide.position(columns.lo, k) - x_side.columns.lo) * x.block, windows_.wide.stride,
                    from + (columns.lo - y_side.columns.lo) * x.block, 1, own + tap(i, j, k) * x.block, columns.size());
          }
        }
    });
  }
};

// One row of taps of one block of channels at a time; the bias counts as one more row.
class DepthwiseWeights final : public Depthwise {
 public:
  DepthwiseWeights(const ConvProblem& problem, const ConvGeometry& geometry) : Depthwise(problem, geometry) {
    tap_rows_ = windows_.deep.kernel * windows_.high.kernel;
    sums_ = workspace_.book(y_.piece.blocks * (tap_rows_ + 1) * windows_.wide.kernel * y_.piece.block * size_of(DType::f64));
  }

  void run(const KernelRun& run) const override {
    const MapPiece& y = y_.piece;
    const std::int64_t items = tap_rows_ + (problem_.bias ? 1 : 0);
    parallel_for(y.blocks * items, y.elements() * 8 * taps_, [&](std::int64_t n) {
      const std::int64_t channel_block = n / items;
      const std::int64_t tap_row = n % items;
      double* const sums = f64(run.workspace + sums_) + n * windows_.wide.kernel * y.block;
      std::fill_n(sums, windows_.wide.kernel * y.block, 0.0);
      if (tap_row < tap_rows_)
        add_taps(run, channel_block, tap_row, sums);
      else
        for (std::int64_t sample = 0; sample < y.samples; ++sample)
          add_sum(y.block, f32(run.in[0]) + (sample * y.blocks + channel_block) * y.plane(), y.positions(), sums);
      for (std::int64_t c = 0; c < y.lanes(channel_block); ++c) {
        const std::int64_t channel = channel_block * y.block + c;
        if (tap_row == tap_rows_)
          f32(run.out[1])[channel] = static_cast<float>(sums[c]);
        else
          for (std::int64_t k = 0; k < windows_.wide.kernel; ++k)
            f32(run.out[0])[channel * taps_ + tap_row * windows_.wide.kernel + k] = static_cast<float>(sums[k * y.block + c]);
      }
    });
  }

 private:
  void add_taps(const KernelRun& run, std::int64_t channel_block, std::int64_t tap_row, double* sums) const {
    const Side x_side(problem_.storage, run.in_boxes[1]);
    const Side y_side(problem_.storage, run.in_boxes[0]);
    const MapPiece& y = y_side.piece;
    const Interval depths = meeting(windows_.deep, tap_row / windows_.high.kernel, x_side.depths, y_side.depths);
    const Interval heights = meeting(windows_.high, tap_row % windows_.high.kernel, x_side.heights, y_side.heights);
    for (std::int64_t sample = 0; sample < y.samples; ++sample) {
      const std::int64_t plane = sample * y.blocks + channel_block;
      for (std::int64_t depth = depths.lo; depth < depths.hi; ++depth)
        for (std::int64_t height = heights.lo; height < heights.hi; ++height) {
          const float* const dy = f32(run.in[0]) + y_side.row(plane, depth, height);
          const float* const x = f32(run.in[1]) + x_side.row(plane, windows_.deep.position(depth, tap_row / windows_.high.kernel),
                                                             windows_.high.position(height, tap_row % windows_.high.kernel));
          for (std::int64_t k = 0; k < windows_.wide.kernel; ++k) {
            const Interval columns = meeting(windows_.wide, k, x_side.columns, y_side.columns);
            if (columns.empty()) continue;
            add_dot(y.block, dy + (columns.lo - y_side.columns.lo) * y.block,
                    x + (windows_.wide.position(columns.lo, k) - x_side.columns.lo) * y.block, windows_.wide.stride, columns.size(),
                    sums + k * y.block);
          }
        }
    }
  }

  std::int64_t tap_rows_ = 0;
  std::int64_t sums_ = 0;
};

}  // namespace

bool is_depthwise(const ConvGeometry& geometry) {
  const Channels& channels = geometry.channels;
  return channels.groups > 1 && channels.inputs == 1 && channels.outputs == 1 && geometry.x[1] == geometry.y[1];
}

std::unique_ptr<Kernel> make_depthwise_forward(const ConvProblem& problem, const ConvGeometry& geometry) {
  return std::make_unique<DepthwiseForward>(problem, geometry);
}

std::unique_ptr<Kernel> make_depthwise_spread(const ConvProblem& problem, const ConvGeometry& geometry) {
  return std::make_unique<DepthwiseSpread>(problem, geometry);
}

std::unique_ptr<Kernel> make_depthwise_weights(const ConvProblem& problem, const ConvGeometry& geometry) {
  return std::make_unique<DepthwiseWeights>(problem, geometry);
}

}  // namespace outsize
