#pragma once

#include "ops/cuda/rows.h"
#include "ops/softmax/op_softmax.h"

// Softmax (kLog: its logarithm) along an axis on the card. Lines along the axis are rows: neighbours where the axis is the last one
// as it is stored, else as many apart as lie behind the axis.
namespace outsize::OUTSIZE_PLACE {

template <bool kLog>
struct SoftmaxRows : PlainRows {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  using Partial = ExponentialSum;
  struct Row {
    float most;
    float end;  // the inverse of the sum, or its logarithm
  };
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, Line) const {
    float x[Batch::kVectors * Batch::kWide];
    elements_or_nothing(batch, 0, x);
    partial.add(x);
  }
  OUTSIZE_BOTH Row row(const Partial& all, Line) const { return {all.most, static_cast<float>(kLog ? log(all.sum) : 1 / all.sum)}; }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int, const Row& row, Vector<float, V>* y) const {
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      const float relative = x[0].of[j] - row.most;
      y[0].of[j] = kLog ? relative - row.end : expf(relative) * row.end;
    }
  }
};

// From dy and y.
template <bool kLog>
struct SoftmaxGradRows : PlainRows {
  static constexpr int kInputs = 2;
  static constexpr int kOutputs = 1;
  struct Partial {
    double sum = 0;
    OUTSIZE_BOTH void merge(const Partial& other) { sum += other.sum; }
  };
  using Row = float;
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, Line) const {
    float sum = 0;
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      if (!batch.has(k)) continue;
      OUTSIZE_UNROLL
      for (int j = 0; j < Batch::kWide; ++j) sum += kLog ? batch.x[k][0].of[j] : batch.x[k][0].of[j] * batch.x[k][1].of[j];
    }
    partial.sum += sum;
  }
  OUTSIZE_BOTH Row row(const Partial& all, Line) const { return static_cast<float>(all.sum); }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int, float sum, Vector<float, V>* dx) const {
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      const float dy = x[0].of[j], y = x[1].of[j];
      dx[0].of[j] = kLog ? dy - expf(y) * sum : y * (dy - sum);
    }
  }
};

// The lines of a piece of that box along the axis of a site.
inline RowShape softmax_lines(const OpSite& site, const Box& box) {
  const int axis = softmax_axis(site), rank = box.rank();
  const bool map = site.in(0).format == Format::map;
  std::int64_t inner = 1;
  if (!(map && axis == 1)) {
    for (int dim = axis + 1; dim < rank; ++dim) inner *= box.extent(dim);
    if (map) inner *= box.extent(1);
  }
  const std::int64_t width = box.extent(axis);
  return {width == 0 ? 0 : box.elements() / width, width, inner};
}

// The factory of a functor of rows whose inputs are the op's, and whose output is output 0.
template <class F>
std::unique_ptr<Kernel> make_softmax(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const RowShape shape = softmax_lines(call.site, call.boxes.out[0]);
  return make_kernel("rows", 0, [shape](const KernelRun& run) {
    std::array<const float*, F::kInputs> inputs;
    for (int i = 0; i < F::kInputs; ++i) inputs[static_cast<std::size_t>(i)] = in<float>(run, i);
    run_rows(F(), inputs, {out<float>(run, 0)}, shape, run.queue);
  });
}

}  // namespace outsize::OUTSIZE_PLACE
