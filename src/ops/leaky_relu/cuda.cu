#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// A NaN stays one: it is not below zero.
struct LeakyRelu : WithoutFactors {
  static constexpr int kInputs = 1;
  float slope;
  explicit LeakyRelu(const OpSite& site) : slope(static_cast<float>(site.number("slope"))) {}
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] < 0 ? slope * x[0] : x[0]; }
};

// From dy and y.
struct LeakyReluGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  float slope;
  explicit LeakyReluGrad(const OpSite& site) : slope(static_cast<float>(site.number("slope"))) {}
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[1] > 0 ? x[0] : slope * x[0]; }
};

}  // namespace

void cuda_leaky_relu(KernelTable& table) {
  table.add("leaky_relu", map_kernel<LeakyRelu>);
  table.add("leaky_relu_grad", map_kernel<LeakyReluGrad>);
}

}  // namespace outsize::OUTSIZE_PLACE
