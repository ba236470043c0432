#include "ops/cuda/broadcast.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Subtract : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] - x[1]; }
};

}  // namespace

void cuda_sub(KernelTable& table) { table.add("sub", broadcast_kernel<Subtract>); }

}  // namespace outsize::OUTSIZE_PLACE
