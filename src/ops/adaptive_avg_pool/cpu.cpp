#include <cstring>

#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// One dimension: output o of `outputs` averages the inputs [⌊o·inputs/outputs⌋, ⌈(o+1)·inputs/outputs⌉).
struct Bins {
  std::int64_t inputs;
  std::int64_t outputs;

  Interval window(std::int64_t output) const {
    return {output * inputs / outputs, ((output + 1) * inputs + outputs - 1) / outputs};
  }
  // The outputs whose windows hold this input.
  Interval touching(std::int64_t input) const { return {input * outputs / inputs, ((input + 1) * outputs + inputs - 1) / inputs}; }
};

template <int B>
OUTSIZE_INLINE void add_line_of(const float* x, std::int64_t positions, double* sum) {
  constexpr std::int64_t kRun = 128;  // f32 within, f64 beyond
  for (std::int64_t from = 0; from < positions; from += kRun) {
    const std::int64_t to = std::min(positions, from + kRun);
    float part[B] = {};
    for (std::int64_t i = from; i < to; ++i) {
#pragma omp simd
      for (int c = 0; c < B; ++c) part[c] += x[i * B + c];
    }
    for (int c = 0; c < B; ++c) sum[c] += static_cast<double>(part[c]);
  }
}

OUTSIZE_CLONES void add_line(std::int64_t block, const float* x, std::int64_t positions, double* sum) {
  if (block == 16)
    add_line_of<16>(x, positions, sum);
  else
    add_line_of<8>(x, positions, sum);
}

template <int B>
OUTSIZE_INLINE void add_scaled_of(const float* dy, float scale, float* dx, std::int64_t positions) {
  for (std::int64_t i = 0; i < positions; ++i) {
#pragma omp simd
    for (int c = 0; c < B; ++c) dx[i * B + c] += scale * dy[c];
  }
}

OUTSIZE_CLONES void add_scaled(std::int64_t block, const float* dy, float scale, float* dx, std::int64_t positions) {
  if (block == 16)
    add_scaled_of<16>(dy, scale, dx, positions);
  else
    add_scaled_of<8>(dy, scale, dx, positions);
}

// The two sides of a call: x (or dx) and y (or dy).
struct Sides {
  Sides(const StorageRule& storage, const ValueType& x_type, const ValueType& y_type, const Box& x_box, const Box& y_box)
      : rows{x_type.shape[2], y_type.shape[2]}, columns{x_type.shape[3], y_type.shape[3]}, x(storage, x_box), y(storage, y_box) {}
  Bins rows;
  Bins columns;
  MapPiece x;
  MapPiece y;
};

class AveragePool : public Kernel {
 public:
  explicit AveragePool(const Sides& sides) : sides_(sides) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const MapPiece& x = sides_.x;
    const MapPiece& y = sides_.y;
    const Box& x_box = run.in_boxes[0];
    const Box& y_box = run.out_boxes[0];
    parallel_for(y.planes() * y.positions(), x.elements() * 4, [&](std::int64_t i) {
      const float* const plane = f32(run.in[0]) + i / y.positions() * x.plane();
      const Interval window_rows = sides_.rows.window(y_box.lo[2] + i % y.positions() / y.width);
      const Interval window_columns = sides_.columns.window(y_box.lo[3] + i % y.width);
      const Interval rows = intersect(window_rows, x_box[2]);
      const Interval columns = intersect(window_columns, x_box[3]);
      double sum[16] = {};
      if (columns == x_box[3]) {
        if (!rows.empty()) add_line(x.block, plane + (rows.lo - x_box.lo[2]) * x.row(), rows.size() * x.width, sum);
      } else {
        for (std::int64_t row = rows.lo; row < rows.hi; ++row)
          add_line(x.block, plane + (row - x_box.lo[2]) * x.row() + (columns.lo - x_box.lo[3]) * x.block, columns.size(), sum);
      }
      const double scale = 1.0 / static_cast<double>(window_rows.size() * window_columns.size());
      for (std::int64_t c = 0; c < y.block; ++c) f32(run.out[0])[i * y.block + c] = static_cast<float>(sum[c] * scale);
    });
  }

 private:
  Sides sides_;
};

class AveragePoolGrad : public Kernel {
 public:
  explicit AveragePoolGrad(const Sides& sides) : sides_(sides) {}
  std::string name() const override { return "loops"; }

  void run(const KernelRun& run) const override {
    const MapPiece& x = sides_.x;
    const MapPiece& y = sides_.y;
    const Box& x_box = run.out_boxes[0];
    const Box& y_box = run.in_boxes[0];
    parallel_for(x.planes() * x.height, x.elements() * 4, [&](std::int64_t i) {
      float* const line = f32(run.out[0]) + i * x.row();
      std::memset(line, 0, static_cast<std::size_t>(x.row()) * sizeof(float));
      const Interval outputs = intersect(sides_.rows.touching(x_box.lo[2] + i % x.height), y_box[2]);
      for (std::int64_t row = outputs.lo; row < outputs.hi; ++row) {
        const float* const dy = f32(run.in[0]) + i / x.height * y.plane() + (row - y_box.lo[2]) * y.row();
        for (std::int64_t column = y_box.lo[3]; column < y_box.hi[3]; ++column) {
          const Interval window = sides_.columns.window(column);
          const Interval columns = intersect(window, x_box[3]);
          const float scale = 1.0f / static_cast<float>(sides_.rows.window(row).size() * window.size());
          add_scaled(x.block, dy + (column - y_box.lo[3]) * y.block, scale, line + (columns.lo - x_box.lo[3]) * x.block,
                     columns.size());
        }
      }
    });
  }

 private:
  Sides sides_;
};

std::unique_ptr<Kernel> make_pool(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<AveragePool>(Sides(storage, call.site.in(0), call.site.out(0), call.boxes.in[0], call.boxes.out[0]));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  require_f32(call);
  require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<AveragePoolGrad>(Sides(storage, call.site.out(0), call.site.in(0), call.boxes.out[0], call.boxes.in[0]));
}

}  // namespace

void cpu_adaptive_avg_pool(KernelTable& table) {
  table.add("adaptive_avg_pool", make_pool);
  table.add("adaptive_avg_pool_grad", make_grad);
}

}  // namespace outsize
