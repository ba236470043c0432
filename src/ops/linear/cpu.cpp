#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#include "ops/cpu_support.h"
#include "ops/registry.h"

// x [N, I], weight [O, I], y [N, O], all row-major; oneDNN's matrix product takes transposed operands as strides.
namespace outsize {

namespace {

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

// The columns' sums of dy, rows [from, to) of the columns' index, in f64.
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

class Product : public Kernel {
 public:
  // `order` says which input is the product's first operand; a third input is the bias.
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

class WeightGrad : public Kernel {
 public:
  WeightGrad(DnnlCall product, bool bias, std::int64_t rows, std::int64_t outputs)
      : product_(std::move(product)), has_bias_(bias), rows_(rows), outputs_(outputs) {}
  std::string name() const override { return product_.implementation(); }
  std::int64_t workspace_bytes() const override { return product_.scratchpad_bytes(); }
  void run(const KernelRun& run) const override {
    product_.bind(0, run.in[0]);
    product_.bind(1, run.in[1]);
    product_.bind(2, run.out[0]);
    product_.execute(run.workspace);
    if (!has_bias_) return;
    constexpr std::int64_t kPart = 512;
    parallel_for(chunks_of(outputs_, kPart), rows_ * outputs_ * 4, [&](std::int64_t i) {
      column_sums(f32(run.in[0]) + i * kPart, rows_, outputs_, f32(run.out[1]) + i * kPart, std::min(kPart, outputs_ - i * kPart));
    });
  }

 private:
  DnnlCall product_;
  bool has_bias_;
  std::int64_t rows_;
  std::int64_t outputs_;
};

std::string describe_call(const Call& call, std::int64_t rows, const Dims& weight) {
  return fmt::format("{} {} ({} rows, weight {})", call.site.op.def->kind(), call.site.op.name, rows, to_string(weight));
}

// A call may have a range of the columns of y (or dx), with those rows (or columns) of the weight: all extents are the boxes'.
std::unique_ptr<Kernel> make_linear(const Call& call, const StorageRule&) {
  require_f32(call);
  const Dims weight = call.boxes.in[1].shape();
  const Dims y = call.boxes.out[0].shape();
  const bool bias = call.site.inputs() > 2;
  return std::make_unique<Product>(product(matrix(y[0], weight[1], Tag::ab), matrix(weight[1], weight[0], Tag::ba),
                                           bias ? matrix(1, weight[0], Tag::ab) : memory::desc(), matrix(y[0], y[1], Tag::ab),
                                           describe_call(call, y[0], weight)),
                                   bias);
}

std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Dims weight = call.boxes.in[1].shape();
  const Dims dx = call.boxes.out[0].shape();
  return std::make_unique<Product>(product(matrix(dx[0], weight[0], Tag::ab), matrix(weight[0], weight[1], Tag::ab), {},
                                           matrix(dx[0], dx[1], Tag::ab), describe_call(call, dx[0], weight)),
                                   false);
}

std::unique_ptr<Kernel> make_weight(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  const Dims weight = call.boxes.out[0].shape();
  const std::int64_t rows = call.boxes.in[0].extent(0);
  return std::make_unique<WeightGrad>(product(matrix(weight[0], rows, Tag::ba), matrix(rows, weight[1], Tag::ab), {},
                                              matrix(weight[0], weight[1], Tag::ab), describe_call(call, rows, weight)),
                                      call.site.outputs() > 1, rows, weight[0]);
}

}  // namespace

void cpu_linear(KernelTable& table) {
  table.add("linear", make_linear);
  table.add("linear_grad_data", make_data);
  table.add("linear_grad_weight", make_weight);
}

}  // namespace outsize
