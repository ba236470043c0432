#include <cstring>

#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// One dimension of the window: output o covers the inputs [o * stride - padding, … + kernel).
struct Window {
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;

  std::int64_t start(std::int64_t output) const { return output * stride - padding; }
};

struct Windows {
  explicit Windows(const OpSite& site) : rows(of(site, 0)), columns(of(site, 1)) {}
  static Window of(const OpSite& site, std::size_t i) {
    return {site.integers("kernel")[i], site.integers("stride")[i], site.integers("padding")[i]};
  }
  Window rows;
  Window columns;
};

// One row of outputs of one channel block. `x` is the plane's first element; boxes are in global coordinates.
struct PoolRow {
  Windows windows;
  Interval x_rows;
  Interval x_columns;
  Interval y_columns;
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

// One output; its window, clipped to the rows and columns at hand, starts at `x`. K > 0: a whole window of K×K.
template <int B, int K>
OUTSIZE_INLINE void pool_one(const float* x, std::int64_t line, std::int64_t rows, std::int64_t columns, int first_index,
                             int index_step, bool relu, float* y, std::uint8_t* argmax) {
  float best[B];
  int where[B];
  for (int c = 0; c < B; ++c) {
    best[c] = x[c];
    where[c] = first_index;
  }
  for (std::int64_t h = 0; h < (K > 0 ? K : rows); ++h)
    for (std::int64_t w = 0; w < (K > 0 ? K : columns); ++w)
      take_larger<B>(x + h * line + w * B, first_index + static_cast<int>(h) * index_step + static_cast<int>(w), best, where);
  for (int c = 0; c < B; ++c) y[c] = relu && best[c] < 0 ? 0.0f : best[c];
  for (int c = 0; c < B; ++c) argmax[c] = static_cast<std::uint8_t>(where[c]);
}

template <int B>
OUTSIZE_INLINE void pool_row_of(const PoolRow& row) {
  const Window across = row.windows.columns;
  const std::int64_t line = row.x_columns.size() * B;
  const std::int64_t top = row.windows.rows.start(row.output_row);
  const Interval rows = intersect({top, top + row.windows.rows.kernel}, row.x_rows);
  const int index_step = static_cast<int>(across.kernel);
  const int row_index = static_cast<int>(rows.lo - top) * index_step;
  const float* const first_line = row.x + (rows.lo - row.x_rows.lo) * line;
  const bool square = row.windows.rows.kernel == across.kernel && rows.size() == across.kernel;
  for (std::int64_t o = 0; o < row.y_columns.size(); ++o) {
    const std::int64_t left = across.start(row.y_columns.lo + o);
    const Interval columns = intersect({left, left + across.kernel}, row.x_columns);
    const float* const x = first_line + (columns.lo - row.x_columns.lo) * B;
    const int index = row_index + static_cast<int>(columns.lo - left);
    const bool whole = square && columns.size() == across.kernel;
    if (whole && across.kernel == 2)
      pool_one<B, 2>(x, line, 2, 2, index, 2, row.relu, row.y + o * B, row.argmax + o * B);
    else if (whole && across.kernel == 3)
      pool_one<B, 3>(x, line, 3, 3, index, 3, row.relu, row.y + o * B, row.argmax + o * B);
    else
      pool_one<B, 0>(x, line, rows.size(), columns.size(), index, index_step, row.relu, row.y + o * B, row.argmax + o * B);
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
      : windows_(site), relu_(site.word("activation") == "relu"), x_(x), y_(y) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const Box& x_box = run.in_boxes[0];
    const Box& y_box = run.out_boxes[0];
    const float* const x = f32(run.in[0]);
    float* const y = f32(run.out[0]);
    auto* const argmax = reinterpret_cast<std::uint8_t*>(run.out[1]);
    parallel_for(y_.planes() * y_.height, x_.elements() * 4, [&](std::int64_t i) {
      const std::int64_t plane = i / y_.height;
      pool_row(y_.block, {windows_, x_box[2], x_box[3], y_box[3], y_box.lo[2] + i % y_.height, relu_, x + plane * x_.plane(),
                          y + i * y_.row(), argmax + i * y_.row()});
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
  Window columns;
  Interval x_columns;
  Interval y_columns;
  std::int64_t window_row;
  const float* dy;
  const std::uint8_t* argmax;
  const float* y;  // none: every output counts
  float* dx;
};

template <int B, bool kMasked>
OUTSIZE_INLINE void grad_row_of(const GradRow& row) {
  for (std::int64_t o = row.y_columns.lo; o < row.y_columns.hi; ++o) {
    const std::int64_t offset = (o - row.y_columns.lo) * B;
    const std::int64_t left = row.columns.start(o);
    const Interval columns = intersect({left, left + row.columns.kernel}, row.x_columns);
    const float* const dy = row.dy + offset;
    const std::uint8_t* const argmax = row.argmax + offset;
    float gradient[B];
    int where[B];
    for (int c = 0; c < B; ++c) where[c] = argmax[c];
    for (int c = 0; c < B; ++c) gradient[c] = kMasked ? (row.y[offset + c] > 0 ? dy[c] : 0.0f) : dy[c];
    for (std::int64_t w = columns.lo; w < columns.hi; ++w) {
      const int index = static_cast<int>(row.window_row * row.columns.kernel + w - left);
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
      : windows_(site), masked_(site.inputs() > 2), x_(dx), y_(dy) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const Box& x_box = run.out_boxes[0];
    const Box& y_box = run.in_boxes[0];
    const float* const dy = f32(run.in[0]);
    const auto* const argmax = reinterpret_cast<const std::uint8_t*>(run.in[1]);
    const float* const y = masked_ ? f32(run.in[2]) : nullptr;
    float* const dx = f32(run.out[0]);
    parallel_for(x_.planes() * x_.height, x_.elements() * 8, [&](std::int64_t i) {
      float* const line = dx + i * x_.row();
      std::memset(line, 0, static_cast<std::size_t>(x_.row()) * sizeof(float));
      // Outputs whose window has this row: start <= row < start + kernel.
      const std::int64_t row = x_box.lo[2] + i % x_.height;
      const Window& window = windows_.rows;
      for (std::int64_t o = std::max(y_box.lo[2], (row + window.padding - window.kernel) / window.stride);
           o < y_box.hi[2] && window.start(o) <= row; ++o) {
        if (row - window.start(o) >= window.kernel) continue;
        const std::int64_t offset = (i / x_.height) * y_.plane() + (o - y_box.lo[2]) * y_.row();
        grad_row(x_.block, {windows_.columns, x_box[3], y_box[3], row - window.start(o), dy + offset, argmax + offset,
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
