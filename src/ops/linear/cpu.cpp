#include <oneapi/dnnl/dnnl.hpp>

#include "ops/cpu_support.h"
#include "ops/registry.h"

// x [N, I], weight [O, I], y [N, O], all row-major. With one row or two, y and dx take little more than reading the weights once,
// which own loops do at up to twice the library's speed. oneDNN's matrix product takes transposed operands as strides.
namespace outsize {

namespace {

constexpr std::int64_t kFewRows = 2;
// Products taken at once: as many sums that do not wait for each other.
constexpr int kSums = 8;

// `rows` rows of x by kSums / rows rows of the weight.
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

struct Extents {
  std::int64_t rows;
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t weight_bytes() const { return inputs * outputs * size_of(DType::f32); }
};

class FewRowsLinear : public Kernel {
 public:
  FewRowsLinear(const Extents& extents, bool bias) : e_(extents), has_bias_(bias) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const weight = f32(run.in[1]);
    const float* const bias = has_bias_ ? f32(run.in[2]) : nullptr;
    float* const y = f32(run.out[0]);
    const std::int64_t group = kSums / e_.rows;
    parallel_for(chunks_of(e_.outputs, group), e_.weight_bytes(), [&](std::int64_t i) {
      const std::int64_t first = i * group;
      float products[kSums];
      const bool whole = first + group <= e_.outputs;
      if (whole) dot_products(e_.rows, x, weight + first * e_.inputs, e_.inputs, products);
      for (std::int64_t n = 0; n < e_.rows; ++n)
        for (std::int64_t o = first; o < std::min(first + group, e_.outputs); ++o) {
          const float product =
              whole ? products[n * group + o - first] : dot_product(x + n * e_.inputs, weight + o * e_.inputs, e_.inputs);
          y[n * e_.outputs + o] = product + (bias == nullptr ? 0.0f : bias[o]);
        }
    });
  }

 private:
  Extents e_;
  bool has_bias_;
};

class FewRowsData : public Kernel {
 public:
  explicit FewRowsData(const Extents& extents) : e_(extents) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const weight = f32(run.in[1]);
    float* const dx = f32(run.out[0]);
    constexpr std::int64_t kColumns = 2048;  // of dx: they stay in the nearest cache
    parallel_for(chunks_of(e_.inputs, kColumns), e_.weight_bytes(), [&](std::int64_t i) {
      const std::int64_t first = i * kColumns;
      const std::int64_t count = std::min(kColumns, e_.inputs - first);
      for (std::int64_t n = 0; n < e_.rows; ++n) std::fill_n(dx + n * e_.inputs + first, count, 0.0f);
      std::int64_t o = 0;
      for (; o + 4 <= e_.outputs; o += 4)
        for (std::int64_t n = 0; n < e_.rows; ++n)
          add_four(dy + n * e_.outputs + o, weight + o * e_.inputs + first, e_.inputs, dx + n * e_.inputs + first, count);
      for (; o < e_.outputs; ++o)
        for (std::int64_t n = 0; n < e_.rows; ++n)
          add_one(dy[n * e_.outputs + o], weight + o * e_.inputs + first, dx + n * e_.inputs + first, count);
    });
  }

 private:
  Extents e_;
};

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc matrix(std::int64_t rows, std::int64_t columns, Tag tag) { return {{rows, columns}, memory::data_type::f32, tag}; }

DnnlCall product(const memory::desc& a, const memory::desc& b, const memory::desc& bias, const memory::desc& result,
                 const std::string& what) {
  dnnl::engine engine;
  engine.reset(cpu_engine(), true);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const bool has_bias = bias.data.ndims != 0;
  const dnnl::matmul::desc desc = has_bias ? dnnl::matmul::desc(a, b, bias, result) : dnnl::matmul::desc(a, b, result);
  const dnnl::matmul::primitive_desc description(desc, attr, engine);
  static constexpr std::array kArguments{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
  return {description.get(), std::span(kArguments).first(has_bias ? 4 : 3), what};
}

// The product of the first two inputs, with the third as bias.
class Product : public Kernel {
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

class WeightProduct : public Kernel {
 public:
  WeightProduct(DnnlCall product, bool bias, const Extents& extents)
      : product_(std::move(product), false), has_bias_(bias), e_(extents) {}
  std::string name() const override { return product_.name(); }
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  void run(const KernelRun& run) const override {
    product_.run(run);
    if (has_bias_) bias_gradient(f32(run.in[0]), e_.rows, e_.outputs, f32(run.out[1]));
  }

 private:
  Product product_;
  bool has_bias_;
  Extents e_;
};

std::string describe_call(const Call& call, const Extents& e) {
  return fmt::format("{} {} ({} rows, {} inputs, {} outputs)", call.site.op.def->kind(), call.site.op.name, e.rows, e.inputs,
                     e.outputs);
}

// A call may have a range of the columns of y (or dx), with those rows (or columns) of the weight: all extents are the boxes'.
Extents extents_of(const Box& rows, const Box& weight) { return {rows.extent(0), weight.extent(1), weight.extent(0)}; }

std::unique_ptr<Kernel> make_linear(const Call& call, const StorageRule&) {
  require_f32(call);
  const Extents e = extents_of(call.boxes.out[0], call.boxes.in[1]);
  const bool bias = call.site.inputs() > 2;
  if (e.rows <= kFewRows) return std::make_unique<FewRowsLinear>(e, bias);
  return std::make_unique<Product>(
      product(matrix(e.rows, e.inputs, Tag::ab), matrix(e.inputs, e.outputs, Tag::ba),
              bias ? matrix(1, e.outputs, Tag::ab) : memory::desc(), matrix(e.rows, e.outputs, Tag::ab), describe_call(call, e)),
      bias);
}

std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Extents e = extents_of(call.boxes.out[0], call.boxes.in[1]);
  if (e.rows <= kFewRows) return std::make_unique<FewRowsData>(e);
  return std::make_unique<Product>(product(matrix(e.rows, e.outputs, Tag::ab), matrix(e.outputs, e.inputs, Tag::ab), {},
                                           matrix(e.rows, e.inputs, Tag::ab), describe_call(call, e)),
                                   false);
}

std::unique_ptr<Kernel> make_weight(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Extents e = extents_of(call.boxes.in[0], call.boxes.out[0]);
  const bool bias = call.site.outputs() > 1;
  return std::make_unique<WeightProduct>(product(matrix(e.outputs, e.rows, Tag::ba), matrix(e.rows, e.inputs, Tag::ab), {},
                                                 matrix(e.outputs, e.inputs, Tag::ab), describe_call(call, e)),
                                         bias, e);
}

}  // namespace

void cpu_linear(KernelTable& table) {
  table.add("linear", make_linear);
  table.add("linear_grad_data", make_data);
  table.add("linear_grad_weight", make_weight);
}

}  // namespace outsize
