#include <cmath>

#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// Products and sums in f64: no square overflows, and conversion is hidden behind the memory.
OUTSIZE_CLONES double squares(const float* x, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

class SquareSum : public Kernel {
 public:
  explicit SquareSum(std::int64_t elements) : elements_(elements) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return chunks_of(elements_) * size_of(DType::f64); }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    double* const sums = f64(run.workspace);
    parallel_chunks(elements_, elements_ * 4,
                    [&](std::int64_t from, std::int64_t count) { sums[from / kChunk] = squares(x + from, count); });
    double total = 0;
    for (std::int64_t i = 0; i < chunks_of(elements_); ++i) total += sums[i];
    *f32(run.out[0]) = static_cast<float>(total);
  }

 private:
  std::int64_t elements_;  // as stored: padding channels are zeros
};

class ClipFactor : public Kernel {
 public:
  explicit ClipFactor(double max_norm) : max_norm_(max_norm) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    double sum = 0;
    for (const std::byte* part : run.in) sum += static_cast<double>(*f32(part));
    const double factor = max_norm_ / (std::sqrt(sum) + 1e-6);
    *f32(run.out[0]) = static_cast<float>(factor > 1 ? 1 : factor);  // NaN of a norm that is NaN
  }

 private:
  double max_norm_;
};

std::unique_ptr<Kernel> make_square_sum(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<SquareSum>(input_elements(call, storage, 0));
}

std::unique_ptr<Kernel> make_clip_factor(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<ClipFactor>(call.site.number("max_norm"));
}

}  // namespace

void cpu_clip(KernelTable& table) {
  table.add("square_sum", make_square_sum);
  table.add("clip_factor", make_clip_factor);
}

}  // namespace outsize
