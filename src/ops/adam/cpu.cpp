#include "ops/adam/rule.h"
#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

struct Inputs {
  const float* param;
  const float* grad;
  const float* m;
  const float* v;
};

struct Outputs {
  float* param;
  float* m;
  float* v;
};

OUTSIZE_CLONES void step(const AdamRule<float>& rule, const Inputs& in, const Outputs& out, std::int64_t from, std::int64_t to) {
  const AdamRule<float> r = rule;
  const float* const param = in.param;
  const float* const grad = in.grad;
  const float* const m = in.m;
  const float* const v = in.v;
  float* const next = out.param;
  float* const next_m = out.m;
  float* const next_v = out.v;
#pragma omp simd
  for (std::int64_t i = from; i < to; ++i) {
    const float p = param[i];
    const float g = r.gradient(p, grad[i]);
    const float mean = r.next_m(m[i], g);
    const float square = r.next_v(v[i], g);
    next_m[i] = mean;
    next_v[i] = square;
    next[i] = r.next_param(p, mean, square);
  }
}

class Adam : public Kernel {
 public:
  Adam(const OpSite& site, std::int64_t elements) : attributes_(site), has_factor_(has_factor(site)), elements_(elements) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float factor = has_factor_ ? *f32(run.in.back()) : 1.0F;
    const std::int32_t number = *reinterpret_cast<const std::int32_t*>(run.in[3]);
    const AdamRule<float> rule(attributes_, static_cast<double>(*f32(run.in[2])), expect_adam_step(number), factor);
    const Inputs in{f32(run.in[0]), f32(run.in[1]), f32(run.in[4]), f32(run.in[5])};
    const Outputs out{f32(run.out[0]), f32(run.out[1]), f32(run.out[2])};
    parallel_chunks(elements_, elements_ * 28,
                    [&](std::int64_t from, std::int64_t count) { step(rule, in, out, from, from + count); });
  }

 private:
  AdamAttributes attributes_;
  bool has_factor_;
  std::int64_t elements_;
};

std::unique_ptr<Kernel> make_adam(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Adam>(call.site, output_elements(call, storage, 0));
}

}  // namespace

void cpu_adam(KernelTable& table) { table.add("adam", make_adam); }

}  // namespace outsize
