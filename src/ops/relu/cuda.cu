#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// A NaN stays one: it is not below zero.
struct Relu : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] < 0 ? 0.0f : x[0]; }
};

// From dy and y. Where y is NaN the gradient passes.
struct ReluGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[1] <= 0 ? 0.0f : x[0]; }
};

// The same, of dy and what is added to it.
struct ReluGradSum : WithoutFactors {
  static constexpr int kInputs = 3;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[1] <= 0 ? 0.0f : x[0] + x[2]; }
};

std::unique_ptr<Kernel> make_relu_grad(const Call& call, const StorageRule& storage) {
  return call.site.inputs() > 2 ? map_kernel<ReluGradSum>(call, storage) : map_kernel<ReluGrad>(call, storage);
}

}  // namespace

void cuda_relu(KernelTable& table) {
  table.add("relu", map_kernel<Relu>);
  table.add("relu_grad", make_relu_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
