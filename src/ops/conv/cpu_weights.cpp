#include "ops/conv/cpu_weights.h"

#include <immintrin.h>

#include "ops/conv/cpu_side.h"

#define OUTSIZE_AVX512 __attribute__((target("avx512f")))

namespace outsize {
namespace {

constexpr int kBlock = 16;  // channels in a vector
constexpr int kTaps = 3;    // of a row of the kernel
constexpr int kSome = 8;    // channels of x at once: their sums at three taps fill 24 of 32 registers
constexpr std::int64_t kTile = kBlock * kBlock;

// Rows of x and of dy that meet at one row of taps. Column c of x meets dy[c], dy[c − 1] and dy[c − 2] at taps 0, 1 and 2, where
// dy has them. Steps are in elements.
struct Meeting {
  const float* x;
  const float* dy;
  std::int64_t planes;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t dy_columns;  // where dy ends
  bool one_before;          // whether dy[−1] and dy[−2] are there
  bool two_before;
  std::int64_t x_plane;
  std::int64_t x_row;
  std::int64_t dy_plane;
  std::int64_t dy_row;
};

using Sums = __m512[kTaps][kSome];

OUTSIZE_AVX512 OUTSIZE_INLINE void add_column(Sums& sums, const float* x, __m512 first, __m512 second, __m512 third) {
#pragma GCC unroll 8
  for (int i = 0; i < kSome; ++i) {
    const __m512 factor = _mm512_set1_ps(x[i]);
    sums[0][i] = _mm512_fmadd_ps(factor, first, sums[0][i]);
    sums[1][i] = _mm512_fmadd_ps(factor, second, sums[1][i]);
    sums[2][i] = _mm512_fmadd_ps(factor, third, sums[2][i]);
  }
}

// Adds to the weights [tap][channel of x][channel of dy] of one row of taps, kSome channels of x. The sums over a meeting start
// from zero: adding up such partial sums loses less than one long sum.
OUTSIZE_AVX512 void add_meeting(const Meeting& met, float* weights) {
  Sums sums;
#pragma GCC unroll 3
  for (int t = 0; t < kTaps; ++t)
#pragma GCC unroll 8
    for (int i = 0; i < kSome; ++i) sums[t][i] = _mm512_setzero_ps();
  for (std::int64_t plane = 0; plane < met.planes; ++plane)
    for (std::int64_t row = 0; row < met.rows; ++row) {
      const float* const x = met.x + plane * met.x_plane + row * met.x_row;
      const float* const dy = met.dy + plane * met.dy_plane + row * met.dy_row;
      __m512 second = met.one_before ? _mm512_loadu_ps(dy - kBlock) : _mm512_setzero_ps();
      __m512 third = met.two_before ? _mm512_loadu_ps(dy - 2 * kBlock) : _mm512_setzero_ps();
      std::int64_t c = 0;
      for (; c < met.dy_columns; ++c) {
        const __m512 first = _mm512_loadu_ps(dy + c * kBlock);
        add_column(sums, x + c * kBlock, first, second, third);
        third = second;
        second = first;
      }
      for (; c < met.columns; ++c) {
        add_column(sums, x + c * kBlock, _mm512_setzero_ps(), second, third);
        third = second;
        second = _mm512_setzero_ps();
      }
    }
#pragma GCC unroll 3
  for (int t = 0; t < kTaps; ++t)
#pragma GCC unroll 8
    for (int i = 0; i < kSome; ++i) {
      float* const weight = weights + t * kTile + i * kBlock;
      _mm512_storeu_ps(weight, _mm512_add_ps(_mm512_loadu_ps(weight), sums[t][i]));
    }
}

// total += the sum over `count` positions.
OUTSIZE_CLONES void add_positions(const float* dy, std::int64_t count, float* total) {
  float sums[kBlock] = {};
  for (std::int64_t i = 0; i < count; ++i)
    for (int c = 0; c < kBlock; ++c) sums[c] += dy[i * kBlock + c];
  for (int c = 0; c < kBlock; ++c) total[c] += sums[c];
}

OUTSIZE_CLONES void add_to(float* total, const float* part, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) total[i] += part[i];
}

// How y is cut: chunks of whole rows whose dy, with the rows of x it meets, stays in the second cache while all taps pass over it,
// and columns, where rows are very long.
constexpr std::int64_t kChunkPositions = 2048;
constexpr std::int64_t kChunkColumns = 1024;
// Where there are fewer blocks of weights than this, each is summed in parts. Their number follows from the shapes alone, so that
// results do not depend on the number of threads.
constexpr std::int64_t kTasks = 64;

// A task is one block of outputs with one block of inputs, at all taps, over one part of the chunks.
class RowWeights final : public Kernel {
 public:
  RowWeights(const ConvProblem& problem, const ConvGeometry& geometry)
      : storage_(problem.storage),
        has_bias_(problem.bias),
        windows_(geometry.windows),
        taps_(geometry.taps()),
        x_(problem.storage, geometry.x),
        y_(problem.storage, geometry.y) {
    chunk_rows_ = std::clamp<std::int64_t>(kChunkPositions / y_.width, 1, y_.height);
    chunk_planes_ = std::clamp<std::int64_t>(kChunkPositions / (y_.width * y_.height), 1, y_.depth);
    parts_ = std::min(ceil_div(kTasks, pairs()), chunks());
    if (has_bias_) bias_ = workspace_.book(parts_ * y_.padded_channels() * size_of(DType::f32));
    weights_ = workspace_.book(parts_ * pairs() * taps_ * kTile * size_of(DType::f32));
  }
  std::int64_t workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override { return "loops:rows"; }

  void run(const KernelRun& run) const override {
    const Side x(storage_, run.in_boxes[1]);
    const Side y(storage_, run.in_boxes[0]);
    float* const weights = f32(run.workspace + weights_);
    float* const bias = f32(run.workspace + bias_);
    const std::int64_t work = (x_.elements() + y_.elements()) * taps_;
    parallel_for(parts_ * pairs(), work, [&](std::int64_t task) {
      const std::int64_t part = task / pairs();
      const std::int64_t pair = task % pairs();
      float* const own = weights + task * taps_ * kTile;
      std::fill_n(own, taps_ * kTile, 0.0f);
      float* const own_bias = has_bias_ && pair % x_.blocks == 0 ? bias + (part * y_.blocks + pair / x_.blocks) * kBlock : nullptr;
      if (own_bias != nullptr) std::fill_n(own_bias, kBlock, 0.0f);
      for (std::int64_t chunk = part * chunks() / parts_; chunk < (part + 1) * chunks() / parts_; ++chunk)
        add_chunk(run, x, y, chunk, pair, own, own_bias);
    });
    parallel_for(pairs(), parts_ * pairs() * taps_ * kTile * size_of(DType::f32), [&](std::int64_t pair) {
      for (std::int64_t part = 1; part < parts_; ++part)
        add_to(weights + pair * taps_ * kTile, weights + (part * pairs() + pair) * taps_ * kTile, taps_ * kTile);
    });
    unblock_weights(storage_, weights, {y_.channels, x_.channels, taps_}, f32(run.out[0]));
    if (!has_bias_) return;
    for (std::int64_t part = 1; part < parts_; ++part) add_to(bias, bias + part * y_.padded_channels(), y_.padded_channels());
    std::copy_n(bias, y_.channels, f32(run.out[1]));
  }

 private:
  std::int64_t pairs() const { return y_.blocks * x_.blocks; }
  std::int64_t plane_chunks() const { return ceil_div(y_.depth, chunk_planes_); }
  std::int64_t row_chunks() const { return ceil_div(y_.height, chunk_rows_); }
  std::int64_t chunks() const { return y_.samples * plane_chunks() * row_chunks(); }

  static Interval cut(Interval range, std::int64_t size, std::int64_t i) {
    return intersect(range, {range.lo + i * size, range.lo + (i + 1) * size});
  }

  void add_chunk(const KernelRun& run, const Side& x, const Side& y, std::int64_t chunk, std::int64_t pair, float* weights,
                 float* bias) const {
    const std::int64_t sample = chunk / (plane_chunks() * row_chunks());
    const Interval depths = cut(y.depths, chunk_planes_, chunk / row_chunks() % plane_chunks());
    const Interval heights = cut(y.heights, chunk_rows_, chunk % row_chunks());
    const std::int64_t x_plane = sample * x_.blocks + pair % x_.blocks;
    const std::int64_t y_plane = sample * y_.blocks + pair / x_.blocks;
    if (bias != nullptr)
      for (std::int64_t depth = depths.lo; depth < depths.hi; ++depth)
        add_positions(f32(run.in[0]) + y.row(y_plane, depth, heights.lo), heights.size() * y_.width, bias);
    const auto& [deep, high, wide] = windows_;
    // All columns of x that a column of y meets.
    const Interval columns = intersect(x.columns, {wide.position(y.columns.lo, 0), wide.position(y.columns.hi - 1, kTaps)});
    for (std::int64_t lo = columns.lo; lo < columns.hi; lo += kChunkColumns)
      for (std::int64_t i = 0; i < deep.kernel; ++i)
        for (std::int64_t j = 0; j < high.kernel; ++j) {
          const Interval planes = meeting(deep, i, x.depths, depths);
          const Interval rows = meeting(high, j, x.heights, heights);
          if (planes.empty() || rows.empty()) continue;
          Meeting found{};
          found.planes = planes.size();
          found.rows = rows.size();
          found.columns = std::min(kChunkColumns, columns.hi - lo);
          const std::int64_t first = lo + wide.before - y.columns.lo;  // the column of dy that tap 0 meets at `lo`
          found.dy_columns = std::clamp<std::int64_t>(y_.width - first, 0, found.columns);
          found.one_before = first >= 1 && first - 1 < y_.width;
          found.two_before = first >= 2;  // `columns` ends where tap 2 meets dy's last
          found.x_row = high.stride * x_.row();
          found.x_plane = deep.stride * x_.height * x_.row();
          found.dy_row = y_.row();
          found.dy_plane = y_.height * y_.row();
          found.x = f32(run.in[1]) + x.row(x_plane, deep.position(planes.lo, i), high.position(rows.lo, j)) +
                    (lo - x.columns.lo) * kBlock;
          found.dy = f32(run.in[0]) + y.row(y_plane, planes.lo, rows.lo) + first * kBlock;
          float* const taps = weights + (i * high.kernel + j) * kTaps * kTile;
          for (std::int64_t c = 0; c < x_.lanes(pair % x_.blocks); c += kSome, found.x += kSome)
            add_meeting(found, taps + c * kBlock);
        }
  }

  StorageRule storage_;
  bool has_bias_;
  SideWindows windows_;
  std::int64_t taps_;
  MapPiece x_;
  MapPiece y_;
  std::int64_t chunk_rows_ = 1;
  std::int64_t chunk_planes_ = 1;
  std::int64_t parts_ = 1;
  Workspace workspace_;
  std::int64_t bias_ = 0;
  std::int64_t weights_ = 0;
};

}  // namespace

bool has_row_weights(const StorageRule& storage, const ConvGeometry& geometry) {
  const WindowAxis& wide = geometry.windows[geometry.rank() - 1];
  return storage.channel_block == kBlock && __builtin_cpu_supports("avx512f") && geometry.channels.groups == 1 &&
         wide.kernel == kTaps && wide.stride == 1 && wide.dilation == 1;
}

std::unique_ptr<Kernel> make_row_weights(const ConvProblem& problem, const ConvGeometry& geometry) {
  return std::make_unique<RowWeights>(problem, geometry);
}

}  // namespace outsize
