#include <numbers>

#include "ops/cpu_math.h"
#include "ops/cpu_pointwise.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// Σ max(x, 0) - x·t + log(1 + e^-|x|). Runs are short so that their f32 sums lose nothing worth naming, and so that the product of
// their 1 + e^-|x| ≤ 2 stays within a double: Σ log s = log Π s, one logarithm a run.
OUTSIZE_CLONES double losses(const float* x, const float* target, std::int64_t count) {
  constexpr std::int64_t kRun = 256;
  double total = 0;
  for (std::int64_t from = 0; from < count; from += kRun) {
    const std::int64_t to = std::min(count, from + kRun);
    float sum = 0;
    float e[kRun];
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = from; i < to; ++i) {
      const float positive = x[i] > 0 ? x[i] : 0.0F;
      sum += positive - x[i] * target[i];
      e[i - from] = lane::exp(x[i] - 2 * positive);  // -|x|
    }
    double product = 1;
#pragma omp simd reduction(* : product)
    for (std::int64_t i = 0; i < to - from; ++i) product *= 1.0 + static_cast<double>(e[i]);
    total += static_cast<double>(sum) + std::log(product);
  }
  return total;
}

OUTSIZE_CLONES void gradients(const float* x, const float* target, float scale, float* dx, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = scale * (lane::sigmoid(x[i]) - target[i]);
}

class BinaryCrossEntropy : public Kernel {
 public:
  BinaryCrossEntropy(const Call& call, const StorageRule& storage)
      : elements_(input_elements(call, storage, 0)),
        padding_(elements_ - call.boxes.in[0].elements()),
        all_(call.site.in(0).elements()) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return chunks_of(elements_) * size_of(DType::f64); }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const target = f32(run.in[1]);
    double* const sums = f64(run.workspace);
    parallel_chunks(elements_, elements_ * 16,
                    [&](std::int64_t from, std::int64_t count) { sums[from / kChunk] = losses(x + from, target + from, count); });
    // An element of padding has brought log(1 + e⁰), and that exactly.
    double total = -static_cast<double>(padding_) * std::numbers::ln2;
    for (std::int64_t i = 0; i < chunks_of(elements_); ++i) total += sums[i];
    *f32(run.out[0]) = static_cast<float>(total / static_cast<double>(all_));
  }

 private:
  std::int64_t elements_;  // of the box, as stored
  std::int64_t padding_;   // of those
  std::int64_t all_;       // of the value
};

class BinaryCrossEntropyGrad : public Kernel {
 public:
  BinaryCrossEntropyGrad(const Call& call, const StorageRule& storage)
      : elements_(input_elements(call, storage, 0)), all_(call.site.in(0).elements()) {
    if (call.site.in(0).format == Format::map && !call.boxes.in[0].empty()) map_.emplace(storage, call.boxes.in[0]);
  }
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    const float* const target = f32(run.in[1]);
    const float scale = static_cast<float>(static_cast<double>(*f32(run.in[2])) / static_cast<double>(all_));
    float* const dx = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 16, [&](std::int64_t from, std::int64_t count) {
      gradients(x + from, target + from, scale, dx + from, count);
      if (map_) clear_padding(*map_, dx, from, count);
    });
  }

 private:
  std::int64_t elements_;
  std::int64_t all_;
  std::optional<MapPiece> map_;
};

template <class Made>
std::unique_ptr<Kernel> make(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Made>(call, storage);
}

}  // namespace

void cpu_binary_cross_entropy(KernelTable& table) {
  table.add("binary_cross_entropy", make<BinaryCrossEntropy>);
  table.add("binary_cross_entropy_grad", make<BinaryCrossEntropyGrad>);
}

}  // namespace outsize
