#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// A NaN stays one: it is not below zero.
OUTSIZE_CLONES void relu(const float* x, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0.0f : x[i];
}

// Where y is NaN the gradient passes. `more` is added to it, unless it is null.
OUTSIZE_CLONES void relu_grad(const float* dy, const float* y, const float* more, float* dx, std::int64_t count) {
  if (more != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) dx[i] = y[i] <= 0 ? 0.0f : dy[i] + more[i];
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) dx[i] = y[i] <= 0 ? 0.0f : dy[i];
}

class Relu : public Kernel {
 public:
  Relu(const Call&, std::int64_t elements) : elements_(elements) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const x = f32(run.in[0]);
    float* const y = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 8, [&](std::int64_t from, std::int64_t count) { relu(x + from, y + from, count); });
  }

 private:
  std::int64_t elements_;
};

class ReluGrad : public Kernel {
 public:
  ReluGrad(const Call& call, std::int64_t elements) : elements_(elements), has_more_(call.site.inputs() > 2) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const dy = f32(run.in[0]);
    const float* const y = f32(run.in[1]);
    const float* const more = has_more_ ? f32(run.in[2]) : nullptr;
    float* const dx = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * (has_more_ ? 16 : 12), [&](std::int64_t from, std::int64_t count) {
      relu_grad(dy + from, y + from, more == nullptr ? nullptr : more + from, dx + from, count);
    });
  }

 private:
  std::int64_t elements_;
  bool has_more_;
};

template <class Made>
std::unique_ptr<Kernel> make(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Made>(call, output_elements(call, storage, 0));
}

}  // namespace

void cpu_relu(KernelTable& table) {
  table.add("relu", make<Relu>);
  table.add("relu_grad", make<ReluGrad>);
}

}  // namespace outsize
