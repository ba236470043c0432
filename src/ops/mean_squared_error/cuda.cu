#include "ops/cuda/flat.h"
#include "ops/cuda/reduce.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Σ (x − target)².
struct SquaredDistance : WithoutFactors {
  static constexpr int kInputs = 2;
  using Partial = SumPartial;
  struct Run : SumRun {
    OUTSIZE_BOTH void add(const float* x, NoFactors) {
      const float difference = x[0] - x[1];
      value += difference * difference;
    }
  };
};

struct Grad : MeanGradient {
  static constexpr int kInputs = 2, kOutputs = 1;
  OUTSIZE_BOTH void operator()(const float* x, float* dx, float scale) const { dx[0] = scale * (x[0] - x[1]); }
};

std::unique_ptr<Kernel> make_loss(const Call& call, const StorageRule& storage) {
  return make_sum_of_all<SquaredDistance>(call, storage, 1 / static_cast<double>(call.site.in(0).elements()));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_mean_gradient<Grad>(call, storage, 2);
}

}  // namespace

void cuda_mean_squared_error(KernelTable& table) {
  table.add("mean_squared_error", make_loss);
  table.add("mean_squared_error_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
