#include "ops/cpu_math.h"
#include "ops/cpu_pointwise.h"

namespace outsize {
namespace {

OUTSIZE_CLONES void silu(const float* x, float* y, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * lane::sigmoid(x[i]);
}

OUTSIZE_CLONES void silu_grad(const float* dy, const float* x, float* dx, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float s = lane::sigmoid(x[i]);
    dx[i] = dy[i] * s * (1.0f + x[i] * (1.0f - s));
  }
}

}  // namespace

void cpu_silu(KernelTable& table) {
  table.add("silu", make_pointwise<silu>);
  table.add("silu_grad", make_pointwise_grad<silu_grad>);
}

}  // namespace outsize
