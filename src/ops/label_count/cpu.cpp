#include "ops/cpu_support.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// A chunk has fewer labels than an i32 counts.
OUTSIZE_CLONES std::int32_t count_others(const std::int32_t* labels, std::int64_t ignored, std::int64_t count) {
  std::int32_t others = 0;
#pragma omp simd reduction(+ : others)
  for (std::int64_t i = 0; i < count; ++i) others += labels[i] != ignored;
  return others;
}

class LabelCount : public Kernel {
 public:
  LabelCount(std::int64_t elements, std::int64_t ignored) : elements_(elements), ignored_(ignored) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return chunks_of(elements_) * size_of(DType::i32); }
  void run(const KernelRun& run) const override {
    const auto* const labels = reinterpret_cast<const std::int32_t*>(run.in[0]);
    auto* const counts = reinterpret_cast<std::int32_t*>(run.workspace);
    parallel_chunks(elements_, elements_ * 4, [&](std::int64_t from, std::int64_t count) {
      counts[from / kChunk] = count_others(labels + from, ignored_, count);
    });
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < chunks_of(elements_); ++i) total += counts[i];
    *f32(run.out[0]) = static_cast<float>(total);
  }

 private:
  std::int64_t elements_;
  std::int64_t ignored_;
};

std::unique_ptr<Kernel> make_label_count(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<LabelCount>(call.boxes.in[0].elements(), call.site.integer("ignore_index"));
}

}  // namespace

void cpu_label_count(KernelTable& table) { table.add("label_count", make_label_count); }

}  // namespace outsize
