#pragma once

#include <cmath>
#include <limits>

#include "ops/softmax/cpu_weight.h"
#include "ops/softmax/op_softmax.h"

// Softmax (kLog: its logarithm) along an axis, in three shapes: rows, where the axis is contiguous; lanes, where what follows the
// axis is, and neighbours are computed side by side; channels of a blocked map, one position after the other. Every function reads
// an element before it writes it, so that y may lie over x, and dx over dy.
namespace outsize {
namespace softmax_loops {

inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

template <bool kLog>
OUTSIZE_CLONES void row(const float* x, float* y, std::int64_t count) {
  float most = kNothing;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) most = x[i] > most ? x[i] : most;
  float sum = 0;
  if (kLog) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += softmax_weight(x[i] - most);
    const float log_sum = std::log(sum);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] - most - log_sum;
  } else {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) {
      const float e = softmax_weight(x[i] - most);
      y[i] = e;
      sum += e;
    }
    const float factor = 1 / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] *= factor;
  }
}

template <bool kLog>
OUTSIZE_CLONES void grad_row(const float* dy, const float* y, float* dx, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += kLog ? dy[i] : dy[i] * y[i];
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = kLog ? dy[i] - softmax_weight(y[i]) * sum : y[i] * (dy[i] - sum);
}

// Lanes computed at once.
inline constexpr std::int64_t kLanes = 64;

// `lanes` ≤ kLanes lines; their elements are `stride` apart.
template <bool kLog>
OUTSIZE_INLINE void lanes_of(const float* x, float* y, std::int64_t count, std::int64_t stride, std::int64_t lanes) {
  float most[kLanes], sum[kLanes];
  for (std::int64_t l = 0; l < lanes; ++l) most[l] = kNothing;
  for (std::int64_t l = 0; l < lanes; ++l) sum[l] = 0;
  for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) most[l] = x[i * stride + l] > most[l] ? x[i * stride + l] : most[l];
  for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) {
      const float e = softmax_weight(x[i * stride + l] - most[l]);
      if (!kLog) y[i * stride + l] = e;
      sum[l] += e;
    }
  for (std::int64_t l = 0; l < lanes; ++l) sum[l] = kLog ? most[l] + std::log(sum[l]) : 1 / sum[l];
  for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) y[i * stride + l] = kLog ? x[i * stride + l] - sum[l] : y[i * stride + l] * sum[l];
}

template <bool kLog>
OUTSIZE_INLINE void grad_lanes_of(const float* dy, const float* y, float* dx, std::int64_t count, std::int64_t stride,
                                  std::int64_t lanes) {
  float sum[kLanes];
  for (std::int64_t l = 0; l < lanes; ++l) sum[l] = 0;
  for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) sum[l] += kLog ? dy[i * stride + l] : dy[i * stride + l] * y[i * stride + l];
  for (std::int64_t i = 0; i < count; ++i)
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) {
      const std::int64_t at = i * stride + l;
      dx[at] = kLog ? dy[at] - softmax_weight(y[at]) * sum[l] : y[at] * (dy[at] - sum[l]);
    }
}

// The channels of `positions` positions: blocks of B channels, `plane` elements apart; `last` channels of the last block are real.
struct Channels {
  std::int64_t positions;
  std::int64_t blocks;
  std::int64_t plane;
  std::int64_t last;
};

// e^(x − most) of one block, added to the totals and, unless the logarithm is wanted, stored.
template <bool kLog, int B>
OUTSIZE_INLINE void exponentials(const float* x, const float* bias, float most, float* y, float* total) {
#pragma omp simd
  for (int i = 0; i < B; ++i) {
    const float e = softmax_weight(x[i] + bias[i] - most);
    if (!kLog) y[i] = e;
    total[i] += e;
  }
}

// One step for all positions after the other: within a position each waits for the one before. At most kPositions of them.
inline constexpr std::int64_t kPositions = 64;

template <bool kLog, int B>
OUTSIZE_INLINE void channels_of(const Channels& c, const float* x, float* y) {
  // In the last block padding counts as −∞: e^−∞ is 0, which it must hold in the end.
  float none[B] = {}, padding[B], keep[B];
  for (int i = 0; i < B; ++i) padding[i] = i < c.last ? 0 : kNothing;
  for (int i = 0; i < B; ++i) keep[i] = i < c.last ? 1 : 0;
  const std::int64_t last = (c.blocks - 1) * c.plane;
  float most[kPositions], sum[kPositions];
  for (std::int64_t p = 0; p < c.positions; ++p) {
    const float* const from = x + p * B;
    float top[B];
#pragma omp simd
    for (int i = 0; i < B; ++i) top[i] = from[last + i] + padding[i];
    for (std::int64_t at = 0; at < last; at += c.plane)
#pragma omp simd
      for (int i = 0; i < B; ++i) top[i] = from[at + i] > top[i] ? from[at + i] : top[i];
    float highest = kNothing;
#pragma omp simd reduction(max : highest)
    for (int i = 0; i < B; ++i) highest = top[i] > highest ? top[i] : highest;
    most[p] = highest;
  }
  for (std::int64_t p = 0; p < c.positions; ++p) {
    const float* const from = x + p * B;
    float* const to = y + p * B;
    float total[B] = {};
    for (std::int64_t at = 0; at < last; at += c.plane) exponentials<kLog, B>(from + at, none, most[p], to + at, total);
    exponentials<kLog, B>(from + last, padding, most[p], to + last, total);
    float together = 0;
#pragma omp simd reduction(+ : together)
    for (int i = 0; i < B; ++i) together += total[i];
    sum[p] = together;
  }
  for (std::int64_t p = 0; p < c.positions; ++p) sum[p] = kLog ? most[p] + std::log(sum[p]) : 1 / sum[p];
  for (std::int64_t p = 0; p < c.positions; ++p) {
    const float* const from = x + p * B;
    float* const to = y + p * B;
    const float end = sum[p];
    for (std::int64_t at = 0; at < last; at += c.plane)
#pragma omp simd
      for (int i = 0; i < B; ++i) to[at + i] = kLog ? from[at + i] - end : to[at + i] * end;
#pragma omp simd
    for (int i = 0; i < B; ++i) to[last + i] = kLog ? (from[last + i] - end) * keep[i] : to[last + i] * end;
  }
}

// Padding holds zeros in dy and y, so it adds nothing, but e^0 is 1.
template <bool kLog, int B>
OUTSIZE_INLINE void grad_channels_of(const Channels& c, const float* dy, const float* y, float* dx) {
  for (std::int64_t p = 0; p < c.positions; ++p) {
    float total[B];
    for (int i = 0; i < B; ++i) total[i] = 0;
    for (std::int64_t block = 0; block < c.blocks; ++block) {
      const std::int64_t at = block * c.plane + p * B;
#pragma omp simd
      for (int i = 0; i < B; ++i) total[i] += kLog ? dy[at + i] : dy[at + i] * y[at + i];
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < B; ++i) sum += total[i];
    for (std::int64_t block = 0; block < c.blocks; ++block) {
      const std::int64_t at = block * c.plane + p * B;
      const std::int64_t lanes = block + 1 == c.blocks ? c.last : B;
#pragma omp simd
      for (int i = 0; i < B; ++i) {
        const float gradient = kLog ? dy[at + i] - softmax_weight(y[at + i]) * sum : y[at + i] * (dy[at + i] - sum);
        dx[at + i] = i < lanes ? gradient : 0.0f;
      }
    }
  }
}

// The same functions, compiled for every machine.
template <bool kLog>
OUTSIZE_CLONES void lanes(const float* x, float* y, std::int64_t count, std::int64_t stride, std::int64_t wide) {
  wide == kLanes ? lanes_of<kLog>(x, y, count, stride, kLanes) : lanes_of<kLog>(x, y, count, stride, wide);
}
template <bool kLog>
OUTSIZE_CLONES void grad_lanes(const float* dy, const float* y, float* dx, std::int64_t count, std::int64_t stride,
                               std::int64_t wide) {
  wide == kLanes ? grad_lanes_of<kLog>(dy, y, dx, count, stride, kLanes) : grad_lanes_of<kLog>(dy, y, dx, count, stride, wide);
}
template <bool kLog>
OUTSIZE_CLONES void channels(std::int64_t block, const Channels& c, const float* x, float* y) {
  block == 16 ? channels_of<kLog, 16>(c, x, y) : channels_of<kLog, 8>(c, x, y);
}
template <bool kLog>
OUTSIZE_CLONES void grad_channels(std::int64_t block, const Channels& c, const float* dy, const float* y, float* dx) {
  block == 16 ? grad_channels_of<kLog, 16>(c, dy, y, dx) : grad_channels_of<kLog, 8>(c, dy, y, dx);
}

}  // namespace softmax_loops

// A piece as lines along the axis.
class SoftmaxLines {
 public:
  SoftmaxLines(const Call& call, const StorageRule& storage) {
    const Box& box = call.boxes.out[0];
    const int axis = softmax_axis(call.site);
    const bool map = call.site.in(0).format == Format::map;
    block_ = map ? storage.channel_block : 1;
    const Dims stored = map ? with_blocks(box.shape()) : box.shape();
    elements_ = stored.product() * block_;
    channels_ = map ? box.extent(1) : 0;
    outer_ = inner_ = 1;
    for (int dim = 0; dim < axis; ++dim) outer_ *= stored[dim];
    for (int dim = axis + 1; dim < stored.rank(); ++dim) inner_ *= stored[dim];
    along_channels_ = map && axis == 1;
    if (!along_channels_) inner_ *= block_;
    count_ = stored[axis];
    // What pads the last block of channels, in units of whole planes of a block.
    plane_ = 1;
    for (int dim = 2; map && dim < stored.rank(); ++dim) plane_ *= stored[dim];
    planes_ = map ? stored[0] * stored[1] : 0;
  }

  // rows(from, count), lanes(from, count, stride, lanes) or channels(from, channels, block) for all lines; `from` in elements.
  template <class Rows, class Lanes, class ByChannels>
  void for_each(std::int64_t bytes, const Rows& rows, const Lanes& lanes, const ByChannels& channels) const {
    if (along_channels_) {
      using softmax_loops::kPositions;
      const std::int64_t tiles = chunks_of(plane_, kPositions);
      parallel_for(outer_ * tiles, bytes, [&](std::int64_t i) {
        const std::int64_t first = i % tiles * kPositions;
        channels((i / tiles * count_ * plane_ + first) * block_,
                 softmax_loops::Channels{std::min(kPositions, plane_ - first), count_, plane_ * block_,
                                         channels_ - (count_ - 1) * block_},
                 block_);
      });
    } else if (inner_ == 1) {
      parallel_for(outer_, bytes, [&](std::int64_t i) { rows(i * count_, count_); });
    } else {
      const std::int64_t tiles = chunks_of(inner_, softmax_loops::kLanes);
      parallel_for(outer_ * tiles, bytes, [&](std::int64_t i) {
        const std::int64_t first = i % tiles * softmax_loops::kLanes;
        lanes(i / tiles * count_ * inner_ + first, count_, inner_, std::min(softmax_loops::kLanes, inner_ - first));
      });
    }
  }

  // Zeros in what pads the last block of channels; along channels the loops have done so.
  void clear_padding(float* y) const {
    const std::int64_t blocks = chunks_of(channels_, block_);
    if (along_channels_ || channels_ % block_ == 0) return;
    const std::int64_t real = channels_ - (blocks - 1) * block_;
    for (std::int64_t plane = blocks - 1; plane < planes_; plane += blocks)
      for (std::int64_t p = 0; p < plane_; ++p) std::fill_n(y + (plane * plane_ + p) * block_ + real, block_ - real, 0.0f);
  }
  std::int64_t elements() const { return elements_; }

 private:
  Dims with_blocks(Dims shape) const {
    shape[1] = chunks_of(shape[1], block_);
    return shape;
  }

  std::int64_t block_, channels_, elements_, outer_, count_, inner_, plane_, planes_;
  bool along_channels_;
};

template <bool kLog>
class SoftmaxKernel final : public Kernel {
 public:
  explicit SoftmaxKernel(const SoftmaxLines& lines) : lines_(lines) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    float* const y = f32(run.out[0]);
    lines_.for_each(
        lines_.elements() * 8, [&](std::int64_t at, std::int64_t count) { softmax_loops::row<kLog>(x + at, y + at, count); },
        [&](std::int64_t at, std::int64_t count, std::int64_t stride, std::int64_t lanes) {
          softmax_loops::lanes<kLog>(x + at, y + at, count, stride, lanes);
        },
        [&](std::int64_t at, const softmax_loops::Channels& channels, std::int64_t block) {
          softmax_loops::channels<kLog>(block, channels, x + at, y + at);
        });
    lines_.clear_padding(y);
  }

 private:
  SoftmaxLines lines_;
};

template <bool kLog>
class SoftmaxGradKernel final : public Kernel {
 public:
  explicit SoftmaxGradKernel(const SoftmaxLines& lines) : lines_(lines) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const y = f32(run.in[1]);
    float* const dx = f32(run.out[0]);
    lines_.for_each(
        lines_.elements() * 12,
        [&](std::int64_t at, std::int64_t count) { softmax_loops::grad_row<kLog>(dy + at, y + at, dx + at, count); },
        [&](std::int64_t at, std::int64_t count, std::int64_t stride, std::int64_t lanes) {
          softmax_loops::grad_lanes<kLog>(dy + at, y + at, dx + at, count, stride, lanes);
        },
        [&](std::int64_t at, const softmax_loops::Channels& channels, std::int64_t block) {
          softmax_loops::grad_channels<kLog>(block, channels, dy + at, y + at, dx + at);
        });
    lines_.clear_padding(dx);
  }

 private:
  SoftmaxLines lines_;
};

template <template <bool> class Made, bool kLog>
std::unique_ptr<Kernel> make_softmax_kernel(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (call.site.in(0).format == Format::map) require_blocks(call, storage);
  return std::make_unique<Made<kLog>>(SoftmaxLines(call, storage));
}

// The kernel factories of softmax (log_softmax) and of its gradient.
template <bool kLog>
std::unique_ptr<Kernel> make_softmax(const Call& call, const StorageRule& storage) {
  return make_softmax_kernel<SoftmaxKernel, kLog>(call, storage);
}
template <bool kLog>
std::unique_ptr<Kernel> make_softmax_grad(const Call& call, const StorageRule& storage) {
  return make_softmax_kernel<SoftmaxGradKernel, kLog>(call, storage);
}

}  // namespace outsize
