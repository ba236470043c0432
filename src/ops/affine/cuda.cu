#include "ops/cuda/map.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Affine : WithoutFactors {
  static constexpr int kInputs = 1;
  float scale, shift;
  explicit Affine(const OpSite& site)
      : scale(static_cast<float>(site.number("scale"))), shift(static_cast<float>(site.number("shift"))) {}
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return scale * x[0] + shift; }
};

}  // namespace

void cuda_affine(KernelTable& table) { table.add("affine", map_kernel<Affine>); }

}  // namespace outsize::OUTSIZE_PLACE
