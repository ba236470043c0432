#include "ops/cuda/broadcast.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Quotient : WithoutFactors {
  static constexpr int kInputs = 2;
  OUTSIZE_BOTH float operator()(const float* x, NoFactors) const { return x[0] / x[1]; }
};

}  // namespace

void cuda_div(KernelTable& table) { table.add("div", broadcast_kernel<Quotient>); }

}  // namespace outsize::OUTSIZE_PLACE
