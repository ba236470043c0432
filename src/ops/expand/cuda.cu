#include "ops/cuda/broadcast.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Repeat : WithoutFactors {
  static constexpr int kInputs = 1;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0]; }
};

}  // namespace

void cuda_expand(KernelTable& table) { table.add("expand", broadcast_kernel<Repeat>); }

}  // namespace outsize::OUTSIZE_PLACE
