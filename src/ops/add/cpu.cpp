#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

OUTSIZE_CLONES void add(const float* a, const float* b, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

class Add : public Kernel {
 public:
  explicit Add(std::int64_t elements) : elements_(elements) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const a = f32(run.in[0]);
    const float* const b = f32(run.in[1]);
    float* const y = f32(run.out[0]);
    parallel_chunks(elements_, elements_ * 12,
                    [&](std::int64_t from, std::int64_t count) { add(a + from, b + from, y + from, count); });
  }

 private:
  std::int64_t elements_;
};

std::unique_ptr<Kernel> make_add(const Call& call, const StorageRule& storage) {
  require_f32(call);
  return std::make_unique<Add>(output_elements(call, storage, 0));
}

}  // namespace

void cpu_add(KernelTable& table) { table.add("add", make_add); }

}  // namespace outsize
