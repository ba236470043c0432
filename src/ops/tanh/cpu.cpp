#include "ops/cpu_math.h"
#include "ops/cpu_pointwise.h"

namespace outsize {
namespace {

OUTSIZE_CLONES void tanh_of(const float* x, float* y, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = lane::tanh(x[i]);
}

OUTSIZE_CLONES void tanh_grad(const float* dy, const float* y, float* dx, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

}  // namespace

void cpu_tanh(KernelTable& table) {
  table.add("tanh", make_pointwise<tanh_of>);
  table.add("tanh_grad", make_pointwise_grad<tanh_grad>);
}

}  // namespace outsize
