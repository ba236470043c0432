#include "ops/cuda/product.h"
#include "ops/cuda/reduce.h"
#include "ops/plain_rows.h"

// x [N, I], y [N, O], weight [O, I] or [I, O], all row-major; N counts the rows of all leading dimensions.
namespace outsize::OUTSIZE_PLACE {
namespace {

bool inputs_first(const Call& call) { return call.site.word("weight") == "io"; }

// The rows of input 0 times the matrix in input 1, and the bias in input 2 where it has elements. A call may have a range of the
// columns of y (or dx), with those outputs (or inputs) of the weight: all extents are the boxes'.
std::unique_ptr<Kernel> make_rows_times_matrix(const Call& call, const StorageRule& storage, bool transposed, bool tf32) {
  expect_card_call(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  if (call.boxes.in[0].empty() || call.boxes.in[1].empty()) return make_zeros(call, storage);
  ProductShape shape = dense_product(1, rows_of(call.boxes.out[0]), last_range(call.boxes.in[0]).size(),
                                     last_range(call.boxes.out[0]).size(), false, transposed);
  shape.bias = call.site.inputs() > 2 && !call.boxes.in[2].empty();
  Product product(shape, tf32);
  const std::int64_t workspace = product.workspace_bytes();
  const std::string name = product.name();
  return make_kernel(name, workspace, [product = std::move(product), bias = shape.bias](const KernelRun& run) {
    product.run({in<float>(run, 0), in<float>(run, 1), out<float>(run, 0), bias ? in<float>(run, 2) : nullptr}, false,
                run.workspace, run.queue);
  });
}

template <bool kTf32>
std::unique_ptr<Kernel> make_linear(const Call& call, const StorageRule& storage) {
  return make_rows_times_matrix(call, storage, !inputs_first(call), kTf32);
}

template <bool kTf32>
std::unique_ptr<Kernel> make_data(const Call& call, const StorageRule& storage) {
  return make_rows_times_matrix(call, storage, inputs_first(call), kTf32);
}

struct Total {
  double sum = 0;
  OUTSIZE_BOTH void merge(const Total& other) { sum += other.sum; }
};

// db[o] = Σ_n dy[n, o]
struct BiasGradient : WithoutFactors {
  static constexpr int kInputs = 1;
  using Partial = Total;
  struct Run {
    float sum;
    OUTSIZE_BOTH void start(float) { sum = 0; }
    OUTSIZE_BOTH void add(const float* dy, NoFactors) { sum += dy[0]; }
    OUTSIZE_BOTH void into(Total& total, int) const { total.sum += sum; }
  };
};

struct BiasGradientEnd {
  float* db;
  OUTSIZE_BOTH void finish(int output, const Total& total) const { db[output] = static_cast<float>(total.sum); }
};

// dw = dyᵀ · x, or xᵀ · dy where the weight is [I, O].
template <bool kTf32>
std::unique_ptr<Kernel> make_weight(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const ReduceShape dy{1, input_sheet(call, 0), 1};
  const std::int64_t inputs = last_range(call.boxes.in[1]).size();
  const bool swapped = inputs_first(call), bias = call.site.outputs() > 1;
  const ProductShape shape = swapped ? dense_product(1, inputs, dy.sheet.positions, dy.sheet.channels, true, false)
                                     : dense_product(1, dy.sheet.channels, dy.sheet.positions, inputs, true, false);
  Product product(shape, kTf32);
  const std::int64_t workspace = std::max(product.workspace_bytes(), bias ? reduce_workspace<BiasGradient>(dy) : 0);
  const std::string name = product.name();
  return make_kernel(name, workspace, [=, product = std::move(product)](const KernelRun& run) {
    product.run({in<float>(run, swapped ? 1 : 0), in<float>(run, swapped ? 0 : 1), out<float>(run, 0)}, false, run.workspace,
                run.queue);
    if (bias) run_reduce(BiasGradient(), BiasGradientEnd{out<float>(run, 1)}, {in<float>(run, 0)}, dy, run.workspace, run.queue);
  });
}

}  // namespace

void cuda_linear(KernelTable& table) {
  table.add("linear", table.tf32 ? make_linear<true> : make_linear<false>);
  table.add("linear_grad_data", table.tf32 ? make_data<true> : make_data<false>);
  table.add("linear_grad_weight", table.tf32 ? make_weight<true> : make_weight<false>);
}

}  // namespace outsize::OUTSIZE_PLACE
