#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Tanh : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return tanhf(x[0]); }
};

// From dy and y.
struct TanhGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] * (1.0f - x[1] * x[1]); }
};

}  // namespace

void cuda_tanh(KernelTable& table) {
  table.add("tanh", map_kernel<Tanh>);
  table.add("tanh_grad", map_kernel<TanhGrad>);
}

}  // namespace outsize::OUTSIZE_PLACE
