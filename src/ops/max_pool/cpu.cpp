#include <cstring>

#include "ops/cpu_support.h"
#include "ops/pool.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// The windows along depth, height and width, and the extents of boxes there; depth is 1 where there is none.
struct Windows {
  explicit Windows(const SlidingWindows& sliding) {
    for (int i = 0; i < sliding.rank; ++i) axes[static_cast<std::size_t>(3 - sliding.rank + i)] = sliding[i];
  }
  std::array<WindowAxis, 3> axes{WindowAxis{.input = 1}, WindowAxis{}, WindowAxis{}};
};
using Ranges = std::array<Interval, 3>;

Ranges ranges_of(const Box& box) {
  const int rank = box.rank();
  return {rank > 4 ? box[2] : Interval{0, 1}, box[rank - 2], box[rank - 1]};
}

// One row of outputs of one channel block. `x` is the plane's first element; boxes are in global coordinates.
struct PoolRow {
  const Windows& windows;
  const Ranges& x_ranges;
  Interval y_columns;
  std::int64_t output_depth;
  std::int64_t output_row;
  bool relu;
  const float* x;
  float* y;
  std::uint8_t* argmax;
};

// Takes a value if it is larger, or no number: as PyTorch does.
template <int B>
OUTSIZE_INLINE void take_larger(const float* x, int index, float* best, int* where) {
#pragma omp simd
  for (int c = 0; c < B; ++c) {
    const bool take = (x[c] > best[c]) | (x[c] != x[c]);
    best[c] = take ? x[c] : best[c];
    where[c] = take ? index : where[c];
  }
}

// The part of a window at hand, from its first element on.
struct Window {
  std::int64_t slice;  // elements from one depth to the next
  std::int64_t line;   // elements from one row to the next
  std::int64_t depths;
  std::int64_t rows;
  std::int64_t columns;
  int slice_index;  // taps from one depth to the next
  int line_index;   // taps from one row to the next
};

// One output. K > 0: all rows and columns of a window with K of each.
template <int B, int K>
OUTSIZE_INLINE void pool_one(const Window& window, const float* x, int first_index, bool relu, float* y, std::uint8_t* argmax) {
  float best[B];
  int where[B];
  for (int c = 0; c < B; ++c) {
    best[c] = x[c];
    where[c] = first_index;
  }
  for (std::int64_t d = 0; d < window.depths; ++d)
    for (std::int64_t h = 0; h < (K > 0 ? K : window.rows); ++h) {
      const int index = first_index + static_cast<int>(d) * window.slice_index + static_cast<int>(h) * window.line_index;
      const float* const line = x + d * window.slice + h * window.line;
      for (std::int64_t w = 0; w < (K > 0 ? K : window.columns); ++w)
        take_larger<B>(line + w * B, index + static_cast<int>(w), best, where);
    }
  for (int c = 0; c < B; ++c) y[c] = relu && best[c] < 0 ? 0.0f : best[c];
  for (int c = 0; c < B; ++c) argmax[c] = static_cast<std::uint8_t>(where[c]);
}

template <int B>
OUTSIZE_INLINE void pool_row_of(const PoolRow& row) {
  const auto& [depth, down, across] = row.windows.axes;
  const auto& [x_depths, x_rows, x_columns] = row.x_ranges;
  const Interval depths = depth.taps(row.output_depth, x_depths);
  const Interval rows = down.taps(row.output_row, x_rows);
  Window window{x_rows.size() * x_columns.size() * B,          x_columns.size() * B,           depths.size(), rows.size(), 0,
                static_cast<int>(down.kernel * across.kernel), static_cast<int>(across.kernel)};
  const int first_index = static_cast<int>(depths.lo) * window.slice_index + static_cast<int>(rows.lo) * window.line_index;
  const float* const first_line = row.x + (depth.position(row.output_depth, depths.lo) - x_depths.lo) * window.slice +
                                  (down.position(row.output_row, rows.lo) - x_rows.lo) * window.line;
  const bool square = down.kernel == across.kernel && rows.size() == across.kernel;
  for (std::int64_t o = 0; o < row.y_columns.size(); ++o) {
    const Interval columns = across.taps(row.y_columns.lo + o, x_columns);
    const float* const x = first_line + (across.position(row.y_columns.lo + o, columns.lo) - x_columns.lo) * B;
    const int index = first_index + static_cast<int>(columns.lo);
    const bool whole = square && columns.size() == across.kernel;
    window.columns = columns.size();
    if (whole && across.kernel == 2)
      pool_one<B, 2>(window, x, index, row.relu, row.y + o * B, row.argmax + o * B);
    else if (whole && across.kernel == 3)
      pool_one<B, 3>(window, x, index, row.relu, row.y + o * B, row.argmax + o * B);
    else
      pool_one<B, 0>(window, x, index, row.relu, row.y + o * B, row.argmax + o * B);
  }
}

OUTSIZE_CLONES void pool_row(std::int64_t block, const PoolRow& row) {
  if (block == 16)
    pool_row_of<16>(row);
  else
    pool_row_of<8>(row);
}

class MaxPool : public Kernel {
 public:
  MaxPool(const OpSite& site, const MapPiece& x, const MapPiece& y)
      : windows_(pool_windows(site, spatial(site.in(0).shape))), relu_(site.word("activation") == "relu"), x_(x), y_(y) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const Ranges x_ranges = ranges_of(run.in_boxes[0]);
    const Ranges y_ranges = ranges_of(run.out_boxes[0]);
    const float* const x = f32(run.in[0]);
    float* const y = f32(run.out[0]);
    auto* const argmax = reinterpret_cast<std::uint8_t*>(run.out[1]);
    const std::int64_t lines = y_.depth * y_.height;
    parallel_for(y_.planes() * lines, x_.elements() * 4, [&](std::int64_t i) {
      const std::int64_t plane = i / lines;
      pool_row(y_.block, {windows_, x_ranges, y_ranges[2], y_ranges[0].lo + i % lines / y_.height, y_ranges[1].lo + i % y_.height,
                          relu_, x + plane * x_.plane(), y + i * y_.row(), argmax + i * y_.row()});
      clear_padding(plane, argmax + i * y_.row());
    });
  }

 private:
  // Padding channels hold zeros everywhere, also where their maximum is found elsewhere in the window.
  void clear_padding(std::int64_t plane, std::uint8_t* argmax) const {
    const std::int64_t lanes = y_.lanes(plane % y_.blocks);
    if (lanes == y_.block) return;
    for (std::int64_t o = 0; o < y_.width; ++o)
      std::memset(argmax + o * y_.block + lanes, 0, static_cast<std::size_t>(y_.block - lanes));
  }

  Windows windows_;
  bool relu_;
  MapPiece x_;
  MapPiece y_;
};

// What one row of outputs gives to one row of inputs: the window's row that meets it.
struct GradRow {
  const WindowAxis& columns;
  Interval x_columns;
  Interval y_columns;
  std::int64_t first_tap;  // of the window's row
  const float* dy;
  const std::uint8_t* argmax;
  const float* y;  // none: every output counts
  float* dx;
};

template <int B, bool kMasked>
OUTSIZE_INLINE void grad_row_of(const GradRow& row) {
  for (std::int64_t o = row.y_columns.lo; o < row.y_columns.hi; ++o) {
    const std::int64_t offset = (o - row.y_columns.lo) * B;
    const std::int64_t left = row.columns.position(o, 0);
    const Interval columns = intersect({left, left + row.columns.kernel}, row.x_columns);
    const float* const dy = row.dy + offset;
    const std::uint8_t* const argmax = row.argmax + offset;
    float gradient[B];
    int where[B];
    for (int c = 0; c < B; ++c) where[c] = argmax[c];
    for (int c = 0; c < B; ++c) gradient[c] = kMasked && row.y[offset + c] <= 0 ? 0.0f : dy[c];
    for (std::int64_t w = columns.lo; w < columns.hi; ++w) {
      const int index = static_cast<int>(row.first_tap + w - left);
      float* const dx = row.dx + (w - row.x_columns.lo) * B;
#pragma omp simd
      for (int c = 0; c < B; ++c) dx[c] += where[c] == index ? gradient[c] : 0.0f;
    }
  }
}

OUTSIZE_CLONES void grad_row(std::int64_t block, const GradRow& row) {
  if (block == 16)
    row.y != nullptr ? grad_row_of<16, true>(row) : grad_row_of<16, false>(row);
  else
    row.y != nullptr ? grad_row_of<8, true>(row) : grad_row_of<8, false>(row);
}

class MaxPoolGrad : public Kernel {
 public:
  MaxPoolGrad(const OpSite& site, const MapPiece& dx, const MapPiece& dy)
      : windows_(pool_gradient_windows(site)), masked_(site.inputs() > 2), x_(dx), y_(dy) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const Ranges x_ranges = ranges_of(run.out_boxes[0]);
    const Ranges y_ranges = ranges_of(run.in_boxes[0]);
    const float* const dy = f32(run.in[0]);
    const auto* const argmax = reinterpret_cast<const std::uint8_t*>(run.in[1]);
    const float* const y = masked_ ? f32(run.in[2]) : nullptr;
    float* const dx = f32(run.out[0]);
    const WindowAxis& deep = windows_.axes[0];
    const WindowAxis& down = windows_.axes[1];
    const WindowAxis& across = windows_.axes[2];
    const std::int64_t lines = x_.depth * x_.height;
    parallel_for(x_.planes() * lines, x_.elements() * 8, [&](std::int64_t i) {
      float* const line = dx + i * x_.row();
      std::memset(line, 0, static_cast<std::size_t>(x_.row()) * sizeof(float));
      // Outputs whose windows have this line.
      const std::int64_t d = x_ranges[0].lo + i % lines / x_.height;
      const std::int64_t h = x_ranges[1].lo + i % x_.height;
      const Interval depths = intersect(deep.outputs_of({d, d + 1}), y_ranges[0]);
      const Interval rows = intersect(down.outputs_of({h, h + 1}), y_ranges[1]);
      for (std::int64_t od = depths.lo; od < depths.hi; ++od)
        for (std::int64_t oh = rows.lo; oh < rows.hi; ++oh) {
          const std::int64_t tap = (d - deep.position(od, 0)) * down.kernel + h - down.position(oh, 0);
          const std::int64_t offset = i / lines * y_.plane() + ((od - y_ranges[0].lo) * y_.height + oh - y_ranges[1].lo) * y_.row();
          grad_row(x_.block, {across, x_ranges[2], y_ranges[2], tap * across.kernel, dy + offset, argmax + offset,
                              y == nullptr ? nullptr : y + offset, line});
        }
    });
  }

 private:
  Windows windows_;
  bool masked_;
  MapPiece x_;
  MapPiece y_;
};

std::unique_ptr<Kernel> make_pool(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  return std::make_unique<MaxPool>(call.site, MapPiece(storage, call.boxes.in[0]), MapPiece(storage, call.boxes.out[0]));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<MaxPoolGrad>(call.site, MapPiece(storage, call.boxes.out[0]), MapPiece(storage, call.boxes.in[0]));
}

}  // namespace

void cpu_max_pool(KernelTable& table) {
  table.add("max_pool", make_pool);
  table.add("max_pool_grad", make_grad);
}

}  // namespace outsize
