#include "ops/cuda/rows.h"
#include "ops/logits.h"
#include "ops/softmax_cross_entropy/labels.h"

// Rows of logits, or the positions of a map, whose channels are their logits. A kernel cannot refuse a label that is no class, as
// the backends of the host do: it makes the loss, or the row's gradient, NaN.
namespace outsize::OUTSIZE_PLACE {
namespace {

struct Labels {
  const std::int32_t* labels;
  std::int64_t classes;
  bool ignores;
  std::int64_t ignored;

  struct Line {
    std::int64_t label = 0;
    bool counts = false;
    bool fits = false;
  };
  OUTSIZE_BOTH Line line(std::int64_t row) const {
    const std::int64_t label = labels[row];
    return {label, !ignores || label != ignored, label >= 0 && label < classes};
  }
};

// What the sum over rows is multiplied by; 0 where the count is 0, for then the loss is 0.
struct Weight {
  const float* count;  // null: all rows
  double rows;
  OUTSIZE_BOTH double operator()() const {
    const double by = count != nullptr ? static_cast<double>(*count) : rows;
    return by == 0 ? 0.0 : 1 / by;
  }
};

// Σ e^logit of a row, and with kSmooth the sum of its logits.
template <bool kSmooth>
struct LossPartial {
  ExponentialSum exponentials;
  double logits = 0;
  OUTSIZE_BOTH void merge(const LossPartial& other) {
    exponentials.merge(other.exponentials);
    if (kSmooth) logits += other.logits;
  }
};

template <bool kSmooth>
struct LossRows : PlainRows {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 0;
  struct Line : Labels::Line {
    float own = 0;  // the logit of the label
  };
  using Partial = LossPartial<kSmooth>;
  using Row = double;  // the loss

  Labels labels;
  const float* logits;
  double smoothing;

  LossRows(const Labels& of, const float* from, double smoothed) : labels(of), logits(from), smoothing(smoothed) {}
  OUTSIZE_BOTH Line line(std::int64_t row) const {
    Line line{labels.line(row)};
    if (line.counts && line.fits) line.own = logits[row * labels.classes + line.label];
    return line;
  }
  // Rows that count nothing are not read.
  OUTSIZE_BOTH int visible(const Line& line) const { return line.counts ? static_cast<int>(labels.classes) : 0; }
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, const Line&) const {
    float x[Batch::kVectors * Batch::kWide];
    elements_or_nothing(batch, 0, x);
    partial.exponentials.add(x);
    if (!kSmooth) return;
    float sum = 0;
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      if (!batch.has(k)) continue;
      OUTSIZE_UNROLL
      for (int j = 0; j < Batch::kWide; ++j) sum += batch.x[k][0].of[j];
    }
    partial.logits += sum;
  }
  OUTSIZE_BOTH Row row(const Partial& all, const Line& line) const {
    if (!line.counts) return 0;
    if (!line.fits) return NAN;
    const double loss = all.exponentials.log_sum() - (1 - smoothing) * line.own;
    return kSmooth ? loss - smoothing * all.logits / static_cast<double>(labels.classes) : loss;
  }
  OUTSIZE_BOTH double total(Row row) const { return row; }
};

struct LossEnd {
  Weight weight;
  float* loss;
  OUTSIZE_BOTH void operator()(double sum) const { *loss = static_cast<float>(sum * weight()); }
};

// scale · (softmax − target), where the target is (1 − ε) onehot + ε / classes.
struct GradRows : PlainRows {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  using Line = Labels::Line;
  using Partial = ExponentialSum;
  struct Row {
    float most, inverse, scale;
    std::int64_t label;
    bool counts;
  };

  Labels labels;
  const float* dloss;
  Weight weight;
  float everywhere, at_label;  // of the target

  GradRows(const Labels& of, const float* gradient, const Weight& rows, double smoothing)
      : labels(of),
        dloss(gradient),
        weight(rows),
        everywhere(static_cast<float>(smoothing / static_cast<double>(of.classes))),
        at_label(static_cast<float>(1 - smoothing)) {}
  OUTSIZE_BOTH Line line(std::int64_t row) const { return labels.line(row); }
  OUTSIZE_BOTH int visible(const Line& line) const { return line.counts ? static_cast<int>(labels.classes) : 0; }
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, const Line&) const {
    float x[Batch::kVectors * Batch::kWide];
    elements_or_nothing(batch, 0, x);
    partial.add(x);
  }
  OUTSIZE_BOTH Row row(const Partial& all, const Line& line) const {
    const float scale = line.fits ? static_cast<float>(*dloss * weight()) : NAN;
    return {all.most, static_cast<float>(1 / all.sum), scale, line.label, line.counts};
  }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int column, const Row& row, Vector<float, V>* dx) const {
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      const float share = expf(x[0].of[j] - row.most) * row.inverse - everywhere;
      dx[0].of[j] = row.counts ? row.scale * (column + j == row.label ? share - at_label : share) : 0.0f;
    }
  }
};

RowShape rows_in(const Call& call, const LabelRule& rule) { return {call.boxes.in[kLabels].elements(), rule.classes}; }

Labels labels_of(const LabelRule& rule, const KernelRun& run) {
  return {in<std::int32_t>(run, kLabels), rule.classes, rule.ignores, rule.ignored};
}

Weight weight_of(const LabelRule& rule, const KernelRun& run, int count_input) {
  return {rule.ignores ? in<float>(run, count_input) : nullptr, static_cast<double>(rule.all_rows)};
}

template <bool kSmooth>
std::unique_ptr<Kernel> make_loss_as(const Call& call, const LabelRule& rule) {
  const RowShape shape = rows_in(call, rule);
  return make_kernel("rows", row_totals_workspace<LossRows<kSmooth>>(), [=](const KernelRun& run) {
    const float* const logits = in<float>(run, kLogits);
    run_row_totals(LossRows<kSmooth>(labels_of(rule, run), logits, rule.smoothing),
                   LossEnd{weight_of(rule, run, 2), out<float>(run, 0)}, {logits}, shape, run.workspace, run.queue);
  });
}

std::unique_ptr<Kernel> make_loss(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const LabelRule rule(call.site, 2);
  return rule.smoothing > 0 ? make_loss_as<true>(call, rule) : make_loss_as<false>(call, rule);
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const LabelRule rule(call.site, 3);
  const RowShape shape = rows_in(call, rule);
  return make_kernel("rows", 0, [=](const KernelRun& run) {
    run_rows(GradRows(labels_of(rule, run), in<float>(run, 2), weight_of(rule, run, 3), rule.smoothing), {in<float>(run, kLogits)},
             {out<float>(run, 0)}, shape, run.queue);
  });
}

}  // namespace

void cuda_softmax_cross_entropy(KernelTable& table) {
  table.add("softmax_cross_entropy", make_loss);
  table.add("softmax_cross_entropy_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
