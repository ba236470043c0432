#include "ops/adaptive_avg_pool/windows.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/resample.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

struct Sum : WithoutFactors {
  static constexpr int kInputs = 1;
  struct Partial {
    double total = 0;
    OUTSIZE_BOTH void merge(const Partial& other) { total += other.total; }
  };
  struct Run {
    float total;
    OUTSIZE_BOTH void start(float) { total = 0; }
    OUTSIZE_BOTH void add(const float* x, NoFactors) { total += x[0]; }
    OUTSIZE_BOTH void into(Partial& partial, int) const { partial.total += total; }
  };
};

struct SumEnd {
  float* y;
  double weight;
  OUTSIZE_BOTH void finish(int target, const Sum::Partial& sum) const { y[target] = static_cast<float>(sum.total * weight); }
};

// The means of whole, large maps, or parts of them: there are few of them, and many blocks for each.
std::unique_ptr<Kernel> make_mean_of_all(const Call& call) {
  const Sheet sheet = input_sheet(call, 0);
  const std::int64_t samples = call.boxes.in[0].extent(0);
  const ReduceShape shape{samples, {sheet.positions / samples, sheet.channels}, 1};
  const Dims& whole = call.site.in(0).shape;
  const double weight = static_cast<double>(whole[0] * whole[1]) / static_cast<double>(whole.product());
  return make_kernel("reduce", reduce_workspace<Sum>(shape), [=](const KernelRun& run) {
    run_reduce(Sum(), SumEnd{out<float>(run, 0), weight}, {in<float>(run, 0)}, shape, run.workspace, run.queue);
  });
}

bool is_large_mean_of_all(const Call& call) {
  constexpr std::int64_t kLarge = 1000;      // positions
  constexpr std::int64_t kMostRows = 60000;  // blocks that a reduction has side by side
  const Box& x = call.boxes.in[0];
  const Dims& y = call.site.out(0).shape;
  if (x.empty() || call.boxes.out[0].empty() || y.product() != y[0] * y[1]) return false;
  const std::int64_t means = x.extent(0) * x.extent(1);
  return x.elements() >= kLarge * means && x.extent(0) * ceil_divide(x.extent(1), 32) < kMostRows;
}

std::unique_ptr<Kernel> make_forward(const Call& call, const StorageRule& storage) {
  if (is_large_mean_of_all(call)) {
    expect_card_call(call, storage);
    return make_mean_of_all(call);
  }
  return make_resample<Forward>(call, storage, adaptive_avg_pool_windows(call.site));
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  return make_resample<Backward>(call, storage, adaptive_avg_pool_gradient_windows(call.site));
}

}  // namespace

void cuda_adaptive_avg_pool(KernelTable& table) {
  table.add("adaptive_avg_pool", make_forward);
  table.add("adaptive_avg_pool_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
