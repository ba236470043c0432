#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

struct Rule {
  float momentum;
  float weight_decay;
};

OUTSIZE_CLONES void step(const Rule& rule, float lr, const float* param, const float* grad, float* next, std::int64_t count) {
  const float weight_decay = rule.weight_decay;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) next[i] = param[i] - lr * (grad[i] + weight_decay * param[i]);
}

OUTSIZE_CLONES void momentum_step(const Rule& rule, float lr, const float* param, const float* grad, const float* buffer,
                                  float* next, float* next_buffer, std::int64_t count) {
  const Rule r = rule;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float p = param[i];
    const float b = r.momentum * buffer[i] + (grad[i] + r.weight_decay * p);
    next_buffer[i] = b;
    next[i] = p - lr * b;
  }
}

class Sgd : public Kernel {
 public:
  Sgd(const Rule& rule, bool buffer, std::int64_t elements) : rule_(rule), has_buffer_(buffer), elements_(elements) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const param = f32(run.in[0]);
    const float* const grad = f32(run.in[1]);
    const float lr = *f32(run.in[2]);
    float* const next = f32(run.out[0]);
    if (!has_buffer_) {
      parallel_chunks(elements_, elements_ * 12, [&](std::int64_t from, std::int64_t count) {
        step(rule_, lr, param + from, grad + from, next + from, count);
      });
      return;
    }
    const float* const buffer = f32(run.in[3]);
    float* const next_buffer = f32(run.out[1]);
    parallel_chunks(elements_, elements_ * 20, [&](std::int64_t from, std::int64_t count) {
      momentum_step(rule_, lr, param + from, grad + from, buffer + from, next + from, next_buffer + from, count);
    });
  }

 private:
  Rule rule_;
  bool has_buffer_;
  std::int64_t elements_;
};

std::unique_ptr<Kernel> make_sgd(const Call& call, const StorageRule& storage) {
  require_f32(call);
  const Rule rule{static_cast<float>(call.site.number("momentum")), static_cast<float>(call.site.number("weight_decay"))};
  return std::make_unique<Sgd>(rule, call.site.inputs() > 3, output_elements(call, storage, 0));
}

}  // namespace

void cpu_sgd(KernelTable& table) { table.add("sgd", make_sgd); }

}  // namespace outsize
