#include "ops/cuda/reduce.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Σ x². A square that f32 cannot hold makes the sum, which is f32, infinite too.
struct Squares : WithoutFactors {
  static constexpr int kInputs = 1;
  using Partial = SumPartial;
  struct Run : SumRun {
    OUTSIZE_BOTH void add(const float* x, NoFactors) { value += x[0] * x[0]; }
  };
};

std::unique_ptr<Kernel> make_square_sum(const Call& call, const StorageRule& storage) {
  return make_sum_of_all<Squares>(call, storage, 1);
}

// The factor of up to kMost sums by one block. Where there are more, a launch leaves what it has in `total` for the next.
struct ClipFactor {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 1;
  static constexpr int kMost = kThreads;  // one a thread

  const float* sums[kMost];
  int count;
  bool first, last;
  double* total;
  float* factor;
  double max_norm;

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    double* const shared = reinterpret_cast<double*>(block.shared());
    block.each([&](int thread) { shared[thread] = thread < count ? static_cast<double>(*sums[thread]) : 0.0; });
    for (int half = kThreads / 2; half > 0; half /= 2)
      block.each([&](int thread) {
        if (thread < half) shared[thread] += shared[thread + half];
      });
    block.last([&](int thread) {
      if (thread > 0) return;
      const double sum = first ? shared[0] : *total + shared[0];
      if (!last) {
        *total = sum;
        return;
      }
      const double exact = max_norm / (sqrt(sum) + 1e-6);
      *factor = static_cast<float>(exact > 1 ? 1 : exact);  // NaN of a norm that is NaN
    });
  }
};

std::unique_ptr<Kernel> make_clip_factor(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const double max_norm = call.site.number("max_norm");
  const int inputs = call.site.inputs();
  return make_kernel("block", inputs > ClipFactor::kMost ? size_of(DType::f64) : 0, [=](const KernelRun& run) {
    for (int from = 0; from < inputs; from += ClipFactor::kMost) {
      const int count = std::min(inputs - from, ClipFactor::kMost);
      ClipFactor program{
          {}, count, from == 0, from + count == inputs, reinterpret_cast<double*>(run.workspace), out<float>(run, 0), max_norm};
      for (int i = 0; i < count; ++i) program.sums[i] = in<float>(run, from + i);
      launch(program, Grid{1, 1, ClipFactor::kThreads * static_cast<std::int64_t>(sizeof(double))}, run.queue);
    }
  });
}

}  // namespace

void cuda_clip(KernelTable& table) {
  table.add("square_sum", make_square_sum);
  table.add("clip_factor", make_clip_factor);
}

}  // namespace outsize::OUTSIZE_PLACE
