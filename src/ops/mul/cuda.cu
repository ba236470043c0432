#include "ops/cuda/broadcast.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Multiply : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] * x[1]; }
};

}  // namespace

void cuda_mul(KernelTable& table) { table.add("mul", broadcast_kernel<Multiply>); }

}  // namespace outsize::OUTSIZE_PLACE
