#include "ops/cpu_product.h"
#include "ops/plain_rows.h"
#include "ops/registry.h"

// x [N, I], y [N, O], weight [O, I] or [I, O], all row-major; N counts the rows of all leading dimensions. With one row or two, y
// and dx take little more than reading the weights once, which own loops do at up to twice the library's speed. For more the
// library's matrix product reaches 95 % of the multipliers' peak in every arrangement, so that no packed copy of the weights pays.
namespace outsize {
namespace {

constexpr std::int64_t kFewRows = 2;
// Products taken at once: as many sums that do not wait for each other.
constexpr int kSums = 8;

// R rows of x by kSums / R rows of the matrix.
template <int R>
OUTSIZE_INLINE void dot_products_of(const float* x, const float* weight, std::int64_t inputs, float* products) {
  constexpr int kLanes = 8;
  constexpr int kOutputs = kSums / R;
  float sum[R][kOutputs][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= inputs; i += kLanes)
    for (int r = 0; r < R; ++r)
      for (int q = 0; q < kOutputs; ++q) {
        const float* const a = x + r * inputs + i;
        const float* const b = weight + q * inputs + i;
#pragma omp simd
        for (int c = 0; c < kLanes; ++c) sum[r][q][c] += a[c] * b[c];
      }
  for (int r = 0; r < R; ++r)
    for (int q = 0; q < kOutputs; ++q) {
      float total = 0;
      for (int c = 0; c < kLanes; ++c) total += sum[r][q][c];
      for (std::int64_t k = i; k < inputs; ++k) total += x[r * inputs + k] * weight[q * inputs + k];
      products[r * kOutputs + q] = total;
    }
}

OUTSIZE_CLONES void dot_products(std::int64_t rows, const float* x, const float* weight, std::int64_t inputs, float* products) {
  if (rows == 1)
    dot_products_of<1>(x, weight, inputs, products);
  else
    dot_products_of<2>(x, weight, inputs, products);
}

OUTSIZE_CLONES float dot_product(const float* x, const float* weight, std::int64_t inputs) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < inputs; ++i) sum += x[i] * weight[i];
  return sum;
}

// dx += Σ_q dy[q] · weight[q], four outputs at once, columns [0, count).
OUTSIZE_CLONES void add_four(const float* dy, const float* weight, std::int64_t stride, float* dx, std::int64_t count) {
  const float a = dy[0], b = dy[1], c = dy[2], d = dy[3];
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    dx[i] += (a * weight[i] + b * weight[stride + i]) + (c * weight[2 * stride + i] + d * weight[3 * stride + i]);
}

OUTSIZE_CLONES void add_one(float dy, const float* weight, float* dx, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] += dy * weight[i];
}

// The sums of some columns of dy.
OUTSIZE_CLONES void column_sums(const float* dy, std::int64_t rows, std::int64_t stride, float* sums, std::int64_t columns) {
  constexpr std::int64_t kColumns = 64;
  for (std::int64_t from = 0; from < columns; from += kColumns) {
    const std::int64_t count = std::min(kColumns, columns - from);
    double total[kColumns] = {};
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t i = 0; i < count; ++i) total[i] += static_cast<double>(dy[n * stride + from + i]);
    for (std::int64_t i = 0; i < count; ++i) sums[from + i] = static_cast<float>(total[i]);
  }
}

void bias_gradient(const float* dy, std::int64_t rows, std::int64_t outputs, float* db) {
  constexpr std::int64_t kPart = 512;
  parallel_for(chunks_of(outputs, kPart), rows * outputs * 4, [&](std::int64_t i) {
    column_sums(dy + i * kPart, rows, outputs, db + i * kPart, std::min(kPart, outputs - i * kPart));
  });
}

// Rows of `inner` numbers times a matrix of `inner` × `outer`.
struct RowsTimesMatrix {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t outer;
  bool transposed;  // the matrix is stored outer × inner
  bool bias;
  std::int64_t matrix_bytes() const { return inner * outer * size_of(DType::f32); }
};

// One row or two, and a matrix stored outer × inner: results are products of rows.
class FewRowsDot final : public Kernel {
 public:
  explicit FewRowsDot(const RowsTimesMatrix& extents) : e_(extents) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const matrix = f32(run.in[1]);
    const float* const bias = e_.bias ? f32(run.in[2]) : nullptr;
    float* const y = f32(run.out[0]);
    const std::int64_t group = kSums / e_.rows;
    parallel_for(chunks_of(e_.outer, group), e_.matrix_bytes(), [&](std::int64_t i) {
      const std::int64_t first = i * group;
      float products[kSums];
      const bool whole = first + group <= e_.outer;
      if (whole) dot_products(e_.rows, x, matrix + first * e_.inner, e_.inner, products);
      for (std::int64_t n = 0; n < e_.rows; ++n)
        for (std::int64_t o = first; o < std::min(first + group, e_.outer); ++o) {
          const float product =
              whole ? products[n * group + o - first] : dot_product(x + n * e_.inner, matrix + o * e_.inner, e_.inner);
          y[n * e_.outer + o] = product + (bias == nullptr ? 0.0f : bias[o]);
        }
    });
  }

 private:
  RowsTimesMatrix e_;
};

// One row or two, and a matrix stored inner × outer: results are sums of the matrix's rows.
class FewRowsSum final : public Kernel {
 public:
  explicit FewRowsSum(const RowsTimesMatrix& extents) : e_(extents) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const matrix = f32(run.in[1]);
    const float* const bias = e_.bias ? f32(run.in[2]) : nullptr;
    float* const y = f32(run.out[0]);
    constexpr std::int64_t kColumns = 2048;  // of y: they stay in the nearest cache
    parallel_for(chunks_of(e_.outer, kColumns), e_.matrix_bytes(), [&](std::int64_t i) {
      const std::int64_t first = i * kColumns;
      const std::int64_t count = std::min(kColumns, e_.outer - first);
      for (std::int64_t n = 0; n < e_.rows; ++n) {
        if (bias == nullptr)
          std::fill_n(y + n * e_.outer + first, count, 0.0f);
        else
          std::copy_n(bias + first, count, y + n * e_.outer + first);
      }
      std::int64_t k = 0;
      for (; k + 4 <= e_.inner; k += 4)
        for (std::int64_t n = 0; n < e_.rows; ++n)
          add_four(x + n * e_.inner + k, matrix + k * e_.outer + first, e_.outer, y + n * e_.outer + first, count);
      for (; k < e_.inner; ++k)
        for (std::int64_t n = 0; n < e_.rows; ++n)
          add_one(x[n * e_.inner + k], matrix + k * e_.outer + first, y + n * e_.outer + first, count);
    });
  }

 private:
  RowsTimesMatrix e_;
};

// The library's product of two inputs, with the third as bias.
class Product final : public Kernel {
 public:
  Product(DnnlCall product, bool bias) : product_(std::move(product)), has_bias_(bias) {}
  std::string name() const override { return product_.implementation(); }
  std::int64_t workspace_bytes() const override { return product_.scratchpad_bytes(); }
  void run(const KernelRun& run) const override {
    product_.bind(0, run.in[0]);
    product_.bind(1, run.in[1]);
    product_.bind(2, run.out[0]);
    if (has_bias_) product_.bind(3, run.in[2]);
    product_.execute(run.workspace);
  }

 private:
  DnnlCall product_;
  bool has_bias_;
};

// dw = dyᵀ · x, or xᵀ · dy where the weight is [I, O].
class WeightProduct final : public Kernel {
 public:
  WeightProduct(DnnlCall product, bool inputs_first, bool bias, std::int64_t rows, std::int64_t outputs)
      : product_(std::move(product)), inputs_first_(inputs_first), has_bias_(bias), rows_(rows), outputs_(outputs) {}
  std::string name() const override { return product_.implementation(); }
  std::int64_t workspace_bytes() const override { return product_.scratchpad_bytes(); }
  void run(const KernelRun& run) const override {
    product_.bind(0, run.in[inputs_first_ ? 1 : 0]);
    product_.bind(1, run.in[inputs_first_ ? 0 : 1]);
    product_.bind(2, run.out[0]);
    product_.execute(run.workspace);
    if (has_bias_) bias_gradient(f32(run.in[0]), rows_, outputs_, f32(run.out[1]));
  }

 private:
  DnnlCall product_;
  bool inputs_first_;
  bool has_bias_;
  std::int64_t rows_;
  std::int64_t outputs_;
};

std::string describe_call(const Call& call, std::int64_t rows, std::int64_t inner, std::int64_t outer) {
  return fmt::format("{} {} ({} × {} × {})", call.site.op.def->kind(), call.site.op.name, rows, inner, outer);
}

bool inputs_first(const Call& call) { return call.site.word("weight") == "io"; }

// Input 0 times the matrix in input 1. A call may have a range of the columns of y (or dx), with those outputs (or inputs) of the
// weight: all extents are the boxes'.
std::unique_ptr<Kernel> make_rows_times_matrix(const Call& call, bool transposed) {
  const RowsTimesMatrix e{rows_of(call.boxes.out[0]), last_range(call.boxes.in[0]).size(), last_range(call.boxes.out[0]).size(),
                          transposed, call.site.inputs() > 2 && !call.boxes.in[2].empty()};
  if (e.rows <= kFewRows && transposed) return std::make_unique<FewRowsDot>(e);
  if (e.rows <= kFewRows) return std::make_unique<FewRowsSum>(e);
  return std::make_unique<Product>(
      matrix_product(1, {e.rows, e.inner}, {e.inner, e.outer, transposed}, e.bias, describe_call(call, e.rows, e.inner, e.outer)),
      e.bias);
}

std::unique_ptr<Kernel> make_linear(const Call& call, const StorageRule&) {
  require_f32(call);
  return make_rows_times_matrix(call, !inputs_first(call));
}

std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return make_rows_times_matrix(call, inputs_first(call));
}

std::unique_ptr<Kernel> make_weight(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const std::int64_t rows = rows_of(call.boxes.in[0]);
  const std::int64_t outputs = last_range(call.boxes.in[0]).size();
  const std::int64_t inputs = last_range(call.boxes.in[1]).size();
  const bool swapped = inputs_first(call);
  const std::int64_t left = swapped ? inputs : outputs;
  const std::int64_t right = swapped ? outputs : inputs;
  return std::make_unique<WeightProduct>(
      matrix_product(1, {left, rows, true}, {rows, right}, false, describe_call(call, left, rows, right)), swapped,
      call.site.outputs() > 1, rows, outputs);
}

}  // namespace

void cpu_linear(KernelTable& table) {
  table.add("linear", make_linear);
  table.add("linear_grad_data", make_data);
  table.add("linear_grad_weight", make_weight);
}

}  // namespace outsize
