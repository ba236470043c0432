#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

OUTSIZE_CLONES void add(const float* sum, const float* grad, float* next, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) next[i] = sum[i] + grad[i];
}

class Accumulate : public Kernel {
 public:
  Accumulate(const OpSite& site, std::int64_t elements) : fresh_(site.integer("fresh") != 0), elements_(elements) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const sum = f32(run.in[0]);
    const float* const grad = f32(run.in[1]);
    float* const next = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 12, [&](std::int64_t from, std::int64_t count) {
      if (fresh_)
        std::copy_n(grad + from, count, next + from);
      else
        add(sum + from, grad + from, next + from, count);
    });
  }

 private:
  bool fresh_;
  std::int64_t elements_;
};

std::unique_ptr<Kernel> make_accumulate(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Accumulate>(call.site, output_elements(call, storage, 0));
}

}  // namespace

void cpu_accumulate(KernelTable& table) { table.add("accumulate", make_accumulate); }

}  // namespace outsize
