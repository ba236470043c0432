#pragma once

#include "ops/broadcast.h"
#include "ops/cpu_support.h"

// The kernel of y = f(a, b) with broadcasting. A folder gives f as a struct with a static `apply` (OUTSIZE_INLINE), instantiates
// broadcast_loop<f> in a clone and gets the factory.
namespace outsize {

// `rows` rows of `width` results that follow each other. An operand goes on by a_row (b_row) from row to row, and inside a row is
// an element a result (full) or one number.
struct BroadcastRun {
  const float* a;
  const float* b;
  float* y;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t a_row;
  std::int64_t b_row;
  bool a_full;
  bool b_full;
  // Results of a row from here on are zero: the channels that pad a block.
  std::int64_t lanes;
};
using BroadcastLoop = void (*)(const BroadcastRun&);

namespace broadcast_detail {

template <class F, bool kFullA, bool kFullB>
OUTSIZE_INLINE void long_rows(const BroadcastRun& run) {
  for (std::int64_t i = 0; i < run.rows; ++i) {
    const float* const a = run.a + i * run.a_row;
    const float* const b = run.b + i * run.b_row;
    float* const y = run.y + i * run.width;
#pragma omp simd
    for (std::int64_t j = 0; j < run.width; ++j) y[j] = F::apply(a[kFullA ? j : 0], b[kFullB ? j : 0]);
  }
}

// Rows that are one channel block.
template <class F, int kWidth, bool kFullA, bool kFullB>
OUTSIZE_INLINE void block_rows(const BroadcastRun& run) {
  // An operand that is the same in all rows may be a plain one, with nothing behind its last channel.
  float a_held[kWidth] = {};
  float b_held[kWidth] = {};
  const float* a = run.a;
  const float* b = run.b;
  if (run.a_row == 0) {
    for (std::int64_t c = 0; c < (kFullA ? run.lanes : 1); ++c) a_held[c] = a[c];
    a = a_held;
  }
  if (run.b_row == 0) {
    for (std::int64_t c = 0; c < (kFullB ? run.lanes : 1); ++c) b_held[c] = b[c];
    b = b_held;
  }
  const int lanes = static_cast<int>(run.lanes);
  float* y = run.y;
  for (std::int64_t i = 0; i < run.rows; ++i, a += run.a_row, b += run.b_row, y += kWidth) {
#pragma omp simd
    for (int c = 0; c < kWidth; ++c) {
      const float result = F::apply(a[kFullA ? c : 0], b[kFullB ? c : 0]);
      y[c] = c < lanes ? result : 0.0f;
    }
  }
}

template <class F, bool kFullA, bool kFullB>
OUTSIZE_INLINE void any_rows(const BroadcastRun& run) {
  if (run.width == 8)
    block_rows<F, 8, kFullA, kFullB>(run);
  else if (run.width == 16)
    block_rows<F, 16, kFullA, kFullB>(run);
  else
    long_rows<F, kFullA, kFullB>(run);
}

}  // namespace broadcast_detail

template <class F>
OUTSIZE_INLINE void broadcast_loop(const BroadcastRun& run) {
  if (run.a_full && run.b_full)
    broadcast_detail::any_rows<F, true, true>(run);
  else if (run.a_full)
    broadcast_detail::any_rows<F, true, false>(run);
  else if (run.b_full)
    broadcast_detail::any_rows<F, false, true>(run);
  else
    broadcast_detail::any_rows<F, false, false>(run);
}

// The stored axes of the result with the steps of both operands along them (0 where one is broadcast). Axes that continue each
// other in all three are one.
class BroadcastAxes {
 public:
  // For a result and operands of these types and boxes. `blocks_apart` keeps channel blocks and the planes of a map apart from
  // everything else, so that padding channels are known.
  BroadcastAxes(const StorageRule& storage, const ValueType& result, const Box& box, const ValueType& a, const Box& a_box,
                const ValueType& b, const Box& b_box, bool blocks_apart)
      : blocks_apart_(blocks_apart && result.format == Format::map) {
    const bool map = result.format == Format::map;
    const std::int64_t block = map ? storage.channel_block : 1;
    const OperandSteps a_steps = steps(storage, result, a, a_box);
    const OperandSteps b_steps = steps(storage, result, b, b_box);
    channels_ = map ? box.extent(1) : 1;
    for (int dim = 0; dim < result.shape.rank(); ++dim) {
      const bool channel = map && dim == 1;
      const std::int64_t extent = channel ? (box.extent(1) + block - 1) / block : box.extent(dim);
      add({extent, a_steps.of[dim], b_steps.of[dim]}, blocks_apart_ && dim <= 2);
      if (channel) channel_axis_ = count_ - 1;
    }
    if (map) add({block, a_steps.lane, b_steps.lane}, blocks_apart_);
    if (count_ == 0) add({1, 0, 0}, true);
  }

  // loop(run) for parts that cover the result.
  void for_each_part(BroadcastLoop loop, const float* a, const float* b, float* y) const {
    const Axis inner = axes_[static_cast<std::size_t>(count_ - 1)];
    const Axis row = count_ > 1 ? axes_[static_cast<std::size_t>(count_ - 2)] : Axis{1, 0, 0};
    std::int64_t outer = 1;
    for (int i = 0; i < count_ - 2; ++i) outer *= axes_[static_cast<std::size_t>(i)].extent;
    const std::int64_t width = std::min(inner.extent, kChunk);
    const std::int64_t columns = chunks_of(inner.extent, width);
    const std::int64_t rows = columns > 1 ? 1 : std::clamp(kChunk / std::max<std::int64_t>(width, 1), std::int64_t{1}, row.extent);
    const std::int64_t groups = chunks_of(row.extent, rows);
    const std::int64_t plane = row.extent * inner.extent;
    parallel_for(outer * groups * columns, outer * plane * 12, [&](std::int64_t task) {
      const std::int64_t column = task % columns * width;
      const std::int64_t first = task / columns % groups * rows;
      std::int64_t index = task / columns / groups;
      BroadcastRun run{a,
                       b,
                       y + index * plane + first * inner.extent + column,
                       std::min(rows, row.extent - first),
                       std::min(width, inner.extent - column),
                       row.a,
                       row.b,
                       inner.a != 0,
                       inner.b != 0,
                       0};
      run.lanes = run.width;
      run.a += first * row.a + column * inner.a;
      run.b += first * row.b + column * inner.b;
      for (int i = count_ - 3; i >= 0; --i) {
        const Axis& axis = axes_[static_cast<std::size_t>(i)];
        const std::int64_t at = index % axis.extent;
        run.a += at * axis.a;
        run.b += at * axis.b;
        if (blocks_apart_ && i == channel_axis_) run.lanes = std::min(run.width, channels_ - at * run.width);
        index /= axis.extent;
      }
      loop(run);
    });
  }

 private:
  struct Axis {
    std::int64_t extent;
    std::int64_t a;
    std::int64_t b;
  };
  struct OperandSteps {
    Dims of;  // by dimension of the result; by block for the channels of a map
    std::int64_t lane = 0;
  };

  static OperandSteps steps(const StorageRule& storage, const ValueType& result, const ValueType& operand, const Box& box) {
    const bool map = result.format == Format::map;
    const bool blocked = operand.format == Format::map;
    OperandSteps steps{Dims::filled(result.shape.rank(), 0)};
    std::int64_t next = blocked ? storage.channel_block : 1;
    for (int own = box.rank() - 1; own >= 0; --own) {
      const int dim = own + result.shape.rank() - box.rank();
      const bool channel = map && dim == 1;
      const bool full = operand.shape[own] == result.shape[dim];
      if (full) steps.of[dim] = channel && !blocked ? storage.channel_block : next;
      if (full && channel) steps.lane = 1;
      next *= channel && blocked ? (box.extent(own) + storage.channel_block - 1) / storage.channel_block : box.extent(own);
    }
    return steps;
  }

  void add(const Axis& axis, bool apart) {
    if (axis.extent == 1 && !apart) return;
    if (count_ > 0 && !apart) {
      Axis& outer = axes_[static_cast<std::size_t>(count_ - 1)];
      if (outer.a == axis.a * axis.extent && outer.b == axis.b * axis.extent) {
        outer = {outer.extent * axis.extent, axis.a, axis.b};
        return;
      }
    }
    axes_[static_cast<std::size_t>(count_++)] = axis;
  }

  std::array<Axis, Dims::kMaxRank + 1> axes_{};
  int count_ = 0;
  bool blocks_apart_;
  std::int64_t channels_ = 1;
  int channel_axis_ = -1;
};

class BroadcastKernel final : public Kernel {
 public:
  BroadcastKernel(BroadcastLoop loop, const BroadcastAxes& axes, int second) : loop_(loop), axes_(axes), second_(second) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    if (run.out[0] == nullptr) return;
    axes_.for_each_part(loop_, f32(run.in[0]), f32(run.in[static_cast<std::size_t>(second_)]), f32(run.out[0]));
  }

 private:
  BroadcastLoop loop_;
  BroadcastAxes axes_;
  int second_;
};

// The kernel of y = f(a, b), or of y = f(x, x) for an op of one input. kKeepsZero: f(0, 0) = 0, so that operands of the result's
// own type leave its padding clean.
template <BroadcastLoop loop, bool kKeepsZero>
std::unique_ptr<Kernel> make_broadcast(const Call& call, const StorageRule& storage) {
  require_f32(call);
  const int second = call.site.inputs() - 1;
  const ValueType& a = call.site.in(0);
  const ValueType& b = call.site.in(second);
  const ValueType& y = call.site.out(0);
  if (y.format == Format::map) require_blocks(call, storage);
  const bool clean = kKeepsZero && a == y && b == y;
  const bool padded = y.format == Format::map && call.boxes.out[0].extent(1) % storage.channel_block != 0;
  const BroadcastAxes axes(storage, y, call.boxes.out[0], a, call.boxes.in[0], b, call.boxes.in[static_cast<std::size_t>(second)],
                           padded && !clean);
  return std::make_unique<BroadcastKernel>(loop, axes, second);
}

}  // namespace outsize
