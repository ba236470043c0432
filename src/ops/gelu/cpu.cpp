#include "ops/cpu_math.h"
#include "ops/cpu_pointwise.h"

namespace outsize {
namespace {

OUTSIZE_CLONES void gelu(const float* x, float* y, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * lane::normal(x[i]).below;
}

OUTSIZE_CLONES void gelu_grad(const float* dy, const float* x, float* dx, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const lane::Normal at = lane::normal(x[i]);
    dx[i] = dy[i] * (at.below + x[i] * at.density);
  }
}

// With u = √(2/π) (x + 0.044715 x³), (1 + tanh u) / 2 is the sigmoid of 2u.
OUTSIZE_INLINE float sigmoid_of_tanh_form(float x) { return lane::sigmoid(x * (1.59576912f + 0.0713548163f * (x * x))); }

OUTSIZE_CLONES void gelu_tanh(const float* x, float* y, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * sigmoid_of_tanh_form(x[i]);
}

OUTSIZE_CLONES void gelu_tanh_grad(const float* dy, const float* x, float* dx, std::int64_t count, Factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float s = sigmoid_of_tanh_form(x[i]);
    const float slope = 1.59576912f + 0.214064449f * (x[i] * x[i]);
    dx[i] = dy[i] * (s + x[i] * slope * (s * (1.0f - s)));
  }
}

bool by_tanh(const Call& call) { return call.site.word("approximate") == "tanh"; }

std::unique_ptr<Kernel> make_gelu(const Call& call, const StorageRule& storage) {
  return by_tanh(call) ? make_pointwise<gelu_tanh>(call, storage) : make_pointwise<gelu>(call, storage);
}

std::unique_ptr<Kernel> make_gelu_grad(const Call& call, const StorageRule& storage) {
  return by_tanh(call) ? make_pointwise_grad<gelu_tanh_grad>(call, storage) : make_pointwise_grad<gelu_grad>(call, storage);
}

}  // namespace

void cpu_gelu(KernelTable& table) {
  table.add("gelu", make_gelu);
  table.add("gelu_grad", make_gelu_grad);
}

}  // namespace outsize
