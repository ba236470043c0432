#include "ops/cuda/flat.h"
#include "ops/cuda/reduce.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Σ max(x, 0) − x·t + log(1 + e^−|x|), of logits and target.
struct Losses : WithoutFactors {
  static constexpr int kInputs = 2;
  using Partial = SumPartial;
  struct Run : SumRun {
    OUTSIZE_BOTH void add(const float* x, NoFactors) {
      const float positive = x[0] > 0 ? x[0] : 0.0f;
      value += positive - x[0] * x[1] + log1pf(expf(x[0] - 2 * positive));
    }
  };
};

struct Grad : MeanGradient {
  static constexpr int kInputs = 2, kOutputs = 1;
  OUTSIZE_BOTH void operator()(const float* x, float* dx, float scale) const {
    dx[0] = scale * (1.0f / (1.0f + expf(-x[0])) - x[1]);
  }
};

std::unique_ptr<Kernel> make_loss(const Call& call, const StorageRule& storage) {
  return make_sum_of_all<Losses>(call, storage, 1 / static_cast<double>(call.site.in(0).elements()));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_mean_gradient<Grad>(call, storage, 1);
}

}  // namespace

void cuda_binary_cross_entropy(KernelTable& table) {
  table.add("binary_cross_entropy", make_loss);
  table.add("binary_cross_entropy_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
