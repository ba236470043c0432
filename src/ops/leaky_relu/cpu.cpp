#include "ops/cpu_pointwise.h"

namespace outsize {
namespace {

OUTSIZE_CLONES void leaky_relu(const float* x, float* y, std::int64_t count, Factors factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * (x[i] < 0 ? factors.a : 1.0f);
}

OUTSIZE_CLONES void leaky_relu_grad(const float* dy, const float* y, float* dx, std::int64_t count, Factors factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (y[i] > 0 ? 1.0f : factors.a);
}

Factors slope(const OpSite& site) { return {static_cast<float>(site.number("slope"))}; }

}  // namespace

void cpu_leaky_relu(KernelTable& table) {
  table.add("leaky_relu", make_pointwise<leaky_relu, slope>);
  table.add("leaky_relu_grad", make_pointwise_grad<leaky_relu_grad, slope>);
}

}  // namespace outsize
