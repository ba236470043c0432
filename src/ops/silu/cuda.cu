#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Silu : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] / (1.0f + expf(-x[0])); }
};

// From dy and x.
struct SiluGrad : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const {
    const float s = 1.0f / (1.0f + expf(-x[1]));
    return x[0] * s * (1.0f + x[1] * (1.0f - s));
  }
};

}  // namespace

void cuda_silu(KernelTable& table) {
  table.add("silu", map_kernel<Silu>);
  table.add("silu_grad", map_kernel<SiluGrad>);
}

}  // namespace outsize::OUTSIZE_PLACE
