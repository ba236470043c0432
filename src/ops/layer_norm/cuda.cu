#include "ops/cuda/moments.h"
#include "ops/cuda/rows.h"
#include "ops/plain_rows.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Means of the rows of a call, then their 1 / deviation.
struct RowMoments {
  const float* mean = nullptr;
  const float* scale = nullptr;
};
RowMoments row_moments(const float* moments, std::int64_t rows) { return {moments, moments + rows}; }

// Elements of a vector of columns that all rows share, `absent` where there are none.
template <int V>
OUTSIZE_BOTH Vector<float, V> columns_or(const float* columns, int column, float absent) {
  if (columns != nullptr) return load<V>(columns + column);
  Vector<float, V> result;
  OUTSIZE_UNROLL
  for (int j = 0; j < V; ++j) result.of[j] = absent;
  return result;
}

struct Forward : PlainRows {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  using Partial = MomentsPartial;
  struct Row {
    float mean, scale;
  };

  const float* gamma;  // null where there is none
  const float* beta;
  float* moments;
  std::int64_t rows;
  double eps;

  Forward(const float* scales, const float* shifts, float* of_rows, std::int64_t row_count, double epsilon)
      : gamma(scales), beta(shifts), moments(of_rows), rows(row_count), eps(epsilon) {}
  bool vectors() const { return aligned<4>(gamma, beta); }

  // Deviations from the batch's own mean, so that squares of what is far from 0 do not cancel.
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, Line) const {
    float sum = 0;
    int count = 0;
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      if (!batch.has(k)) continue;
      count += Batch::kWide;
      OUTSIZE_UNROLL
      for (int j = 0; j < Batch::kWide; ++j) sum += batch.x[k][0].of[j];
    }
    if (count == 0) return;
    const float mean = sum / static_cast<float>(count);
    float rest = 0, squares = 0;
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      if (!batch.has(k)) continue;
      OUTSIZE_UNROLL
      for (int j = 0; j < Batch::kWide; ++j) {
        const float d = batch.x[k][0].of[j] - mean;
        rest += d;
        squares += d * d;
      }
    }
    const double n = count, drift = rest / n;
    partial.merge({n, mean + drift, squares - rest * drift});
  }
  OUTSIZE_BOTH Row row(const Partial& all, Line) const {
    return {static_cast<float>(all.mean), static_cast<float>(1 / sqrt(all.m2 / all.count + eps))};
  }
  OUTSIZE_BOTH void finish(std::int64_t at, const Row& row) const {
    moments[at] = row.mean;
    moments[rows + at] = row.scale;
  }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int column, const Row& row, Vector<float, V>* y) const {
    const Vector<float, V> scales = columns_or<V>(gamma, column, 1), shifts = columns_or<V>(beta, column, 0);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) y[0].of[j] = (x[0].of[j] - row.mean) * row.scale * scales.of[j] + shifts.of[j];
  }
};

// With x̂ the normalized x and g = dy · gamma: dx = scale · (g − mean(g) − x̂ · mean(g · x̂)). From dy and x.
struct Grad : PlainRows {
  static constexpr int kInputs = 2;
  static constexpr int kOutputs = 1;
  struct Line {
    float mean, scale;
  };
  struct Partial {
    double sum = 0, product = 0;  // of g, and of g · x̂
    OUTSIZE_BOTH void merge(const Partial& other) {
      sum += other.sum;
      product += other.product;
    }
  };
  struct Row {
    float mean, scale, mean_g, mean_product;
  };

  RowMoments moments;
  const float* gamma;
  int features;

  Grad(const RowMoments& of_rows, const float* scales, std::int64_t width)
      : moments(of_rows), gamma(scales), features(static_cast<int>(width)) {}
  bool vectors() const { return aligned<4>(gamma); }

  OUTSIZE_BOTH Line line(std::int64_t row) const { return {moments.mean[row], moments.scale[row]}; }
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, const Line& line) const {
    constexpr int V = Batch::kWide;
    float sum = 0, product = 0;
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      if (!batch.has(k)) continue;
      const Vector<float, V> scales = columns_or<V>(gamma, batch.column(k), 1);
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) {
        const float g = batch.x[k][0].of[j] * scales.of[j];
        sum += g;
        product += g * ((batch.x[k][1].of[j] - line.mean) * line.scale);
      }
    }
    partial.merge({sum, product});
  }
  OUTSIZE_BOTH Row row(const Partial& all, const Line& line) const {
    return {line.mean, line.scale, static_cast<float>(all.sum / features), static_cast<float>(all.product / features)};
  }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int column, const Row& row, Vector<float, V>* dx) const {
    const Vector<float, V> scales = columns_or<V>(gamma, column, 1);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      const float normal = (x[1].of[j] - row.mean) * row.scale;
      dx[0].of[j] = row.scale * (x[0].of[j] * scales.of[j] - row.mean_g - normal * row.mean_product);
    }
  }
};

struct ParamSums {
  double gamma = 0, beta = 0;
  OUTSIZE_BOTH void merge(const ParamSums& other) {
    gamma += other.gamma;
    beta += other.beta;
  }
};

// Sums over the rows for every feature, from dy and x.
struct GradParams {
  static constexpr int kInputs = 2;
  using Factors = RowMoments;
  using Partial = ParamSums;
  struct Run {
    float gamma, beta;
    OUTSIZE_BOTH void start(float) { gamma = beta = 0; }
    OUTSIZE_BOTH void add(const float* x, const RowMoments& moments, Place place) {
      gamma += x[0] * ((x[1] - moments.mean[place.position]) * moments.scale[place.position]);
      beta += x[0];
    }
    OUTSIZE_BOTH void into(ParamSums& sums, int) const { sums.merge({gamma, beta}); }
  };
  RowMoments moments;
  OUTSIZE_BOTH RowMoments factors(int) const { return moments; }
};

struct GradParamsEnd {
  float* dgamma;
  float* dbeta;
  OUTSIZE_BOTH void finish(int feature, const ParamSums& sums) const {
    dgamma[feature] = static_cast<float>(sums.gamma);
    dbeta[feature] = static_cast<float>(sums.beta);
  }
};

RowShape rows_in(const Call& call) { return {rows_of(call.boxes.in[0]), last_range(call.boxes.in[0]).size()}; }

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const RowShape shape = rows_in(call);
  const int inputs = call.site.inputs();
  const double eps = call.site.number("eps");
  return make_kernel("rows", 0, [=](const KernelRun& run) {
    const Forward forward(inputs > 1 ? in<float>(run, 1) : nullptr, inputs > 2 ? in<float>(run, 2) : nullptr, out<float>(run, 1),
                          shape.rows, eps);
    run_rows(forward, {in<float>(run, 0)}, {out<float>(run, 0)}, shape, run.queue);
  });
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const RowShape shape = rows_in(call);
  const bool has_gamma = call.site.inputs() > 3;
  return make_kernel("rows", 0, [=](const KernelRun& run) {
    const Grad grad(row_moments(in<float>(run, 2), shape.rows), has_gamma ? in<float>(run, 3) : nullptr, shape.width);
    run_rows(grad, {in<float>(run, 0), in<float>(run, 1)}, {out<float>(run, 0)}, shape, run.queue);
  });
}

std::unique_ptr<Kernel> make_grad_params(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const ReduceShape shape{1, input_sheet(call, 0)};
  return make_kernel("reduce", reduce_workspace<GradParams>(shape), [=](const KernelRun& run) {
    run_reduce(GradParams{row_moments(in<float>(run, 2), shape.sheet.positions)},
               GradParamsEnd{out<float>(run, 0), out<float>(run, 1)}, {in<float>(run, 0), in<float>(run, 1)}, shape, run.workspace,
               run.queue);
  });
}

}  // namespace

void cuda_layer_norm(KernelTable& table) {
  table.add("layer_norm", make_forward);
  table.add("layer_norm_grad", make_grad);
  table.add("layer_norm_grad_params", make_grad_params);
}

}  // namespace outsize::OUTSIZE_PLACE
