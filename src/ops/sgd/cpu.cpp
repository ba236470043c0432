#include "ops/cpu_support.h"
#include "ops/registry.h"
#include "ops/sgd/rule.h"

namespace outsize {

namespace {

using Rule = SgdRule<float>;

OUTSIZE_CLONES void step(const Rule& rule, const float* param, const float* grad, float* next, std::int64_t count) {
  const Rule r = rule;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) next[i] = r.next_param(param[i], r.gradient(param[i], grad[i]));
}

OUTSIZE_CLONES void momentum_step(const Rule& rule, const float* param, const float* grad, const float* buffer, float* next,
                                  float* next_buffer, std::int64_t count) {
  const Rule r = rule;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float p = param[i];
    const float b = r.next_buffer(buffer[i], r.gradient(p, grad[i]));
    next_buffer[i] = b;
    next[i] = r.next_param(p, b);
  }
}

OUTSIZE_CLONES void nesterov_step(const Rule& rule, const float* param, const float* grad, const float* buffer, float* next,
                                  float* next_buffer, std::int64_t count) {
  const Rule r = rule;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float p = param[i];
    const float g = r.gradient(p, grad[i]);
    const float b = r.next_buffer(buffer[i], g);
    next_buffer[i] = b;
    next[i] = r.next_param(p, r.nesterov_gradient(g, b));
  }
}

class Sgd : public Kernel {
 public:
  Sgd(const OpSite& site, std::int64_t elements)
      : rule_(site),
        has_buffer_(site.outputs() > 1),
        nesterov_(site.integer("nesterov") != 0),
        has_factor_(has_factor(site)),
        elements_(elements) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const param = f32(run.in[0]);
    const float* const grad = f32(run.in[1]);
    Rule rule = rule_;
    rule.lr = *f32(run.in[2]);
    if (has_factor_) rule.factor = *f32(run.in.back());
    float* const next = f32(run.out[0]);
    if (!has_buffer_) {
      parallel_chunks(elements_, elements_ * 12,
                      [&](std::int64_t from, std::int64_t count) { step(rule, param + from, grad + from, next + from, count); });
      return;
    }
    const float* const buffer = f32(run.in[3]);
    float* const next_buffer = f32(run.out[1]);
    parallel_chunks(elements_, elements_ * 20, [&](std::int64_t from, std::int64_t count) {
      (nesterov_ ? nesterov_step : momentum_step)(rule, param + from, grad + from, buffer + from, next + from, next_buffer + from,
                                                  count);
    });
  }

 private:
  Rule rule_;
  bool has_buffer_;
  bool nesterov_;
  bool has_factor_;
  std::int64_t elements_;
};

std::unique_ptr<Kernel> make_sgd(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Sgd>(call.site, output_elements(call, storage, 0));
}

}  // namespace

void cpu_sgd(KernelTable& table) { table.add("sgd", make_sgd); }

}  // namespace outsize
