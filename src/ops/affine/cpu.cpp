#include "ops/cpu_pointwise.h"

namespace outsize {
namespace {

OUTSIZE_CLONES void affine(const float* x, float* y, std::int64_t count, Factors factors) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = factors.a * x[i] + factors.b;
}

Factors scale_and_shift(const OpSite& site) {
  return {static_cast<float>(site.number("scale")), static_cast<float>(site.number("shift"))};
}

}  // namespace

void cpu_affine(KernelTable& table) { table.add("affine", make_padded_pointwise<affine, scale_and_shift>); }

}  // namespace outsize
