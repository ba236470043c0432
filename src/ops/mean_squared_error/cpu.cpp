#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// Runs are short so that f32 sums lose nothing worth naming; their sums are taken in f64.
constexpr std::int64_t kRun = 256;

OUTSIZE_CLONES double squared_distance(const float* x, const float* target, std::int64_t count) {
  double total = 0;
  for (std::int64_t from = 0; from < count; from += kRun) {
    const std::int64_t to = std::min(count, from + kRun);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = from; i < to; ++i) sum += (x[i] - target[i]) * (x[i] - target[i]);
    total += static_cast<double>(sum);
  }
  return total;
}

OUTSIZE_CLONES void scaled_distance(const float* x, const float* target, float scale, float* dx, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = scale * (x[i] - target[i]);
}

class MeanSquaredError : public Kernel {
 public:
  MeanSquaredError(std::int64_t elements, std::int64_t all) : elements_(elements), all_(all) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return chunks_of(elements_) * size_of(DType::f64); }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const target = f32(run.in[1]);
    double* const sums = f64(run.workspace);
    parallel_chunks(elements_, elements_ * 8, [&](std::int64_t from, std::int64_t count) {
      sums[from / kChunk] = squared_distance(x + from, target + from, count);
    });
    double total = 0;
    for (std::int64_t i = 0; i < chunks_of(elements_); ++i) total += sums[i];
    *f32(run.out[0]) = static_cast<float>(total / static_cast<double>(all_));
  }

 private:
  std::int64_t elements_;  // of the box, as stored; padding channels are equal on both sides
  std::int64_t all_;       // of the value
};

class MeanSquaredErrorGrad : public Kernel {
 public:
  MeanSquaredErrorGrad(std::int64_t elements, std::int64_t all) : elements_(elements), all_(all) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const target = f32(run.in[1]);
    const float scale = static_cast<float>(2.0 * static_cast<double>(*f32(run.in[2])) / static_cast<double>(all_));
    float* const dx = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 12, [&](std::int64_t from, std::int64_t count) {
      scaled_distance(x + from, target + from, scale, dx + from, count);
    });
  }

 private:
  std::int64_t elements_;
  std::int64_t all_;
};

template <class Made>
std::unique_ptr<Kernel> make(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Made>(input_elements(call, storage, 0), call.site.in(0).elements());
}

}  // namespace

void cpu_mean_squared_error(KernelTable& table) {
  table.add("mean_squared_error", make<MeanSquaredError>);
  table.add("mean_squared_error_grad", make<MeanSquaredErrorGrad>);
}

}  // namespace outsize
