#include "ops/cpu_math.h"
#include "ops/cpu_pointwise.h"

namespace outsize {
namespace {

OUTSIZE_CLONES void sigmoid(const float* x, float* y, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = lane::sigmoid(x[i]);
}

OUTSIZE_CLONES void sigmoid_grad(const float* dy, const float* y, float* dx, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1.0f - y[i]);
}

}  // namespace

void cpu_sigmoid(KernelTable& table) {
  table.add("sigmoid", make_padded_pointwise<sigmoid>);
  table.add("sigmoid_grad", make_pointwise_grad<sigmoid_grad>);
}

}  // namespace outsize
