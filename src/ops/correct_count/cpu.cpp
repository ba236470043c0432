#include "ops/cpu_support.h"
#include "ops/logits.h"
#include "ops/registry.h"

namespace outsize {

namespace {

// How many of a row's logits come before the label's: a NaN before every number, and before itself, so that nothing is correct
// where the label's logit is NaN.
OUTSIZE_CLONES std::int64_t before_label(const float* logits, std::int64_t classes, std::int64_t label) {
  const float own = logits[label];
  std::int32_t larger = 0;
#pragma omp simd reduction(+ : larger)
  for (std::int64_t c = 0; c < classes; ++c) larger += !(logits[c] <= own);
  for (std::int64_t c = 0; c < label; ++c) larger += logits[c] == own;
  return larger;
}

// The same over the channels of one position of a blocked map.
std::int64_t before_label(const MapPiece& map, const float* position, std::int64_t label) {
  const float own = position[label / map.block * map.plane() + label % map.block];
  std::int64_t larger = 0;
  for (std::int64_t c = 0; c < map.channels; ++c) {
    const float other = position[c / map.block * map.plane() + c % map.block];
    larger += !(other < own || (other == own && c >= label));
  }
  return larger;
}

// Rows (or positions) in chunks, each with its own count: the sum does not depend on the threads.
class CorrectCount final : public Kernel {
 public:
  CorrectCount(const Call& call, const StorageRule& storage)
      : map_(call.site.in(kLogits).format == Format::map),
        piece_(map_ ? MapPiece(storage, call.boxes.in[kLogits]) : MapPiece(storage, Box::whole({1, 1, 1, 1}))),
        rows_(call.boxes.in[kLabels].elements()),
        classes_(call.site.in(kLogits).shape[class_dim(call.site.in(kLogits))]),
        k_(call.site.integer("k")) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return chunks_of(rows_, kRows) * size_of(DType::i32); }

  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[kLogits]);
    const auto* const labels = reinterpret_cast<const std::int32_t*>(run.in[kLabels]);
    auto* const counts = reinterpret_cast<std::int32_t*>(run.workspace);
    parallel_for(chunks_of(rows_, kRows), rows_ * classes_ * 4, [&](std::int64_t chunk) {
      std::int32_t correct = 0;
      for (std::int64_t row = chunk * kRows; row < std::min(rows_, (chunk + 1) * kRows); ++row) {
        const std::int64_t label = labels[row];
        if (label < 0 || label >= classes_) continue;  // ignored
        correct += (map_ ? before_label(piece_, position(logits, row), label)
                         : before_label(logits + row * classes_, classes_, label)) < k_;
      }
      counts[chunk] = correct;
    });
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < chunks_of(rows_, kRows); ++i) total += counts[i];
    *f64(run.out[0]) = static_cast<double>(total);
  }

 private:
  static constexpr std::int64_t kRows = 64;

  const float* position(const float* logits, std::int64_t row) const {
    return logits + row / piece_.positions() * piece_.blocks * piece_.plane() + row % piece_.positions() * piece_.block;
  }

  bool map_;
  MapPiece piece_;
  std::int64_t rows_;
  std::int64_t classes_;
  std::int64_t k_;
};

std::unique_ptr<Kernel> make_correct_count(const Call& call, const StorageRule& storage) {
  if (call.site.in(kLogits).dtype != DType::f32)
    internal_error("the cpu backend computes in f32; {} has another", call.site.op.name);
  if (call.site.in(kLogits).format == Format::map) require_blocks(call, storage);
  if (has_empty_input(call)) return make_zero_kernel(call, storage);
  return std::make_unique<CorrectCount>(call, storage);
}

}  // namespace

void cpu_correct_count(KernelTable& table) { table.add("correct_count", make_correct_count); }

}  // namespace outsize
