#include "ops/cuda/rows.h"
#include "ops/logits.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Whether the label of a row, or of a position of a map, is among the k largest of its logits.
struct CorrectRows : PlainRows {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 0;
  struct Line {
    std::int64_t label = -1;
    float own = 0;  // its logit
    bool counts = false;
  };
  struct Partial {
    std::int64_t before = 0;  // logits that come before the label's
    OUTSIZE_BOTH void merge(const Partial& other) { before += other.before; }
  };
  using Row = bool;

  const float* logits;
  const std::int32_t* labels;
  std::int64_t classes;
  std::int64_t places;  // k

  CorrectRows(const float* of, const std::int32_t* right, std::int64_t count, std::int64_t k)
      : logits(of), labels(right), classes(count), places(k) {}
  OUTSIZE_BOTH Line line(std::int64_t row) const {
    const std::int64_t label = labels[row];
    if (label < 0 || label >= classes) return {};
    return {label, logits[row * classes + label], true};
  }
  // Rows whose label is no class are ignored.
  OUTSIZE_BOTH int visible(const Line& line) const { return line.counts ? static_cast<int>(classes) : 0; }
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, const Line& line) const {
    int before = 0;
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      if (!batch.has(k)) continue;
      OUTSIZE_UNROLL
      for (int j = 0; j < Batch::kWide; ++j) {
        // A NaN is before every number, and before itself: where the label's logit is NaN nothing is correct.
        const float x = batch.x[k][0].of[j];
        before += x < line.own || (x == line.own && batch.column(k) + j >= line.label) ? 0 : 1;
      }
    }
    partial.before += before;
  }
  OUTSIZE_BOTH Row row(const Partial& all, const Line& line) const { return line.counts && all.before < places; }
  OUTSIZE_BOTH double total(Row correct) const { return correct ? 1.0 : 0.0; }
};

struct Count {
  double* to;
  OUTSIZE_BOTH void operator()(double sum) const { *to = sum; }
};

std::unique_ptr<Kernel> make_correct_count(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const ValueType& type = call.site.in(kLogits);
  const RowShape shape(call.boxes.in[kLabels].elements(), type.shape[class_dim(type)]);
  const std::int64_t k = call.site.integer("k");
  return make_kernel("rows", row_totals_workspace<CorrectRows>(), [=](const KernelRun& run) {
    const float* const logits = in<float>(run, kLogits);
    run_row_totals(CorrectRows(logits, in<std::int32_t>(run, kLabels), shape.width, k), Count{out<double>(run, 0)}, {logits}, shape,
                   run.workspace, run.queue);
  });
}

}  // namespace

void cuda_correct_count(KernelTable& table) { table.add("correct_count", make_correct_count); }

}  // namespace outsize::OUTSIZE_PLACE
