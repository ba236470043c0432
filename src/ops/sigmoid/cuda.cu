#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Sigmoid : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return 1.0f / (1.0f + expf(-x[0])); }
};

// From dy and y.
struct SigmoidGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] * x[1] * (1.0f - x[1]); }
};

}  // namespace

void cuda_sigmoid(KernelTable& table) {
  table.add("sigmoid", map_kernel<Sigmoid>);
  table.add("sigmoid_grad", map_kernel<SigmoidGrad>);
}

}  // namespace outsize::OUTSIZE_PLACE
