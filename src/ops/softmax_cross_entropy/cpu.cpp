#include "ops/registry.h"
#include "ops/softmax_cross_entropy/cpu_maps.h"
#include "ops/softmax_cross_entropy/cpu_rows.h"
#include "ops/softmax_cross_entropy/labels.h"

namespace outsize {

namespace {

const std::int32_t* i32(const std::byte* data) { return reinterpret_cast<const std::int32_t*>(data); }

void check_labels(const LabelRule& rule, const std::int32_t* labels, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i)
    if (!rule.fits(labels[i])) rule.refuse(labels[i], i);
}

// What the sum over rows is multiplied by; 0 where the count is 0, for then the loss is 0.
double weight_of_row(const LabelRule& rule, const std::byte* count) {
  const double rows = rule.ignores ? static_cast<double>(*f32(count)) : static_cast<double>(rule.all_rows);
  return rows == 0 ? 0 : 1 / rows;
}

// exp costs more than its bytes.
constexpr std::int64_t kWorkOfElement = 32;

// --- rows [..., K] ---

class RowLoss : public Kernel {
 public:
  explicit RowLoss(const Call& call) : rule_(call.site, 2), rows_(call.boxes.in[1].elements()) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return rows_ * size_of(DType::f64); }
  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[0]);
    const std::int32_t* const labels = i32(run.in[1]);
    check_labels(rule_, labels, rows_);
    double* const losses = f64(run.workspace);
    parallel_for(rows_, rows_ * rule_.classes * kWorkOfElement,
                 [&](std::int64_t n) { losses[n] = loss(logits + n * rule_.classes, labels[n]); });
    double total = 0;
    for (std::int64_t n = 0; n < rows_; ++n) total += losses[n];
    *f32(run.out[0]) = static_cast<float>(total * weight_of_row(rule_, rule_.ignores ? run.in[2] : nullptr));
  }

 private:
  double loss(const float* row, std::int32_t label) const {
    if (!rule_.counts(label)) return 0;
    const std::int64_t piece = piece_of(rule_.classes);
    ExponentialSum all;
    double total = 0;
    for (std::int64_t from = 0; from < rule_.classes; from += piece) {
      const std::int64_t count = std::min(piece, rule_.classes - from);
      const float most = largest_of(row + from, count);
      if (rule_.smoothing > 0) total += sum_of(row + from, count);
      if (most > -std::numeric_limits<float>::infinity()) all.add(most, sum_of_exponentials(row + from, most, count));
    }
    const double target = static_cast<double>(row[label]);
    return all.log() - (1 - rule_.smoothing) * target - rule_.smoothing * total / static_cast<double>(rule_.classes);
  }

  LabelRule rule_;
  std::int64_t rows_;
};

class RowGradient : public Kernel {
 public:
  explicit RowGradient(const Call& call) : rule_(call.site, 3), rows_(call.boxes.in[1].elements()) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[0]);
    const std::int32_t* const labels = i32(run.in[1]);
    check_labels(rule_, labels, rows_);
    const double scale = static_cast<double>(*f32(run.in[2])) * weight_of_row(rule_, rule_.ignores ? run.in[3] : nullptr);
    float* const gradient = f32(run.out[0]);
    parallel_for(rows_, rows_ * rule_.classes * kWorkOfElement,
                 [&](std::int64_t n) { fill(logits + n * rule_.classes, labels[n], scale, gradient + n * rule_.classes); });
  }

 private:
  void fill(const float* row, std::int32_t label, double scale, float* out) const {
    if (!rule_.counts(label)) return std::fill_n(out, rule_.classes, 0.0F), void();
    const std::int64_t piece = piece_of(rule_.classes);
    float pieces[kMostPieces];
    ExponentialSum all;
    for (std::int64_t from = 0, i = 0; from < rule_.classes; from += piece, ++i) {
      const std::int64_t count = std::min(piece, rule_.classes - from);
      pieces[i] = std::max(largest_of(row + from, count), std::numeric_limits<float>::lowest());
      all.add(pieces[i], keep_exponentials(row + from, pieces[i], out + from, count));
    }
    const float shift = static_cast<float>(scale * rule_.smoothing / static_cast<double>(rule_.classes));
    for (std::int64_t from = 0, i = 0; from < rule_.classes; from += piece, ++i) {
      const double relative = std::exp(static_cast<double>(pieces[i]) - static_cast<double>(all.most));
      scale_and_shift(out + from, static_cast<float>(scale * relative / all.sum), shift, std::min(piece, rule_.classes - from));
    }
    out[label] -= static_cast<float>(scale * (1 - rule_.smoothing));
  }

  LabelRule rule_;
  std::int64_t rows_;
};

// --- maps [N, K, D?, H, W] ---

// Positions of a map in chunks, and the softmax of each.
class MapLoops {
 public:
  MapLoops(const Call& call, const StorageRule& storage)
      : piece_(storage, call.boxes.in[0]),
        plane_(piece_.plane()),
        shift_(piece_.block == 8 ? 3 : 4),
        positions_(positions_of(piece_.padded_channels())) {
    const std::int64_t lanes = piece_.lanes(piece_.blocks - 1);
    for (std::int64_t i = 0; lanes < piece_.block && i < positions_ * piece_.block; ++i)
      mask_.push_back(i % piece_.block < lanes ? 0.0F : -1e30F);
  }

  std::int64_t chunks() const { return piece_.samples * chunks_of_sample(); }
  std::int64_t work() const { return piece_.elements() * kWorkOfElement; }
  MapChunk chunk(const float* logits, std::int64_t index) const {
    const std::int64_t from = first(index);
    return {logits + offset(index), piece_.plane(),
            piece_.blocks,          std::min(positions_, piece_.positions() - from),
            piece_.channels,        mask_.empty() ? nullptr : mask_.data()};
  }
  // Where the first element, the first label of a chunk are.
  std::int64_t offset(std::int64_t index) const {
    return index / chunks_of_sample() * piece_.blocks * piece_.plane() + first(index) * piece_.block;
  }
  std::int64_t label(std::int64_t index) const { return index / chunks_of_sample() * piece_.positions() + first(index); }
  std::int64_t rows() const { return piece_.samples * piece_.positions(); }

  // Where class k of position p of a chunk is.
  std::int64_t at(std::int64_t p, std::int64_t k) const {
    return (k >> shift_) * plane_ + (p << shift_) + (k & (piece_.block - 1));
  }
  float sums(const MapChunk& chunk, float* out) const {
    return piece_.block == 8 ? map_exponentials<8, false>(chunk, nullptr, out) : map_exponentials<16, false>(chunk, nullptr, out);
  }
  float exponentials(const MapChunk& chunk, float* e, float* out) const {
    return piece_.block == 8 ? map_exponentials<8, true>(chunk, e, out) : map_exponentials<16, true>(chunk, e, out);
  }
  void scale(const MapChunk& chunk, const float* factors, const float* shifts, float* e) const {
    (piece_.block == 8 ? scale_map<8> : scale_map<16>)(chunk, factors, shifts, e);
  }
  // Of position p alone, shifted by its own maximum.
  ExponentialSum own_sum(const MapChunk& chunk, std::int64_t p) const {
    ExponentialSum all;
    for (std::int64_t k = 0; k < chunk.classes; ++k) all.add(chunk.logits[at(p, k)], 1);
    return all;
  }

 private:
  std::int64_t chunks_of_sample() const { return outsize::chunks_of(piece_.positions(), positions_); }
  std::int64_t first(std::int64_t index) const { return index % chunks_of_sample() * positions_; }

  MapPiece piece_;
  std::int64_t plane_;
  int shift_;  // log2 of the block: the index of a label is on the way of every position
  std::int64_t positions_;
  std::vector<float> mask_;
};

// Threads cannot throw: a chunk says whether all its labels were right, and the first wrong one is looked for afterwards.
struct ChunkResult {
  double loss;
  std::int64_t labels_fit;
};

class MapLoss : public Kernel {
 public:
  MapLoss(const Call& call, const StorageRule& storage) : rule_(call.site, 2), loops_(call, storage) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return loops_.chunks() * static_cast<std::int64_t>(sizeof(ChunkResult)); }
  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[0]);
    const std::int32_t* const labels = i32(run.in[1]);
    auto* const results = reinterpret_cast<ChunkResult*>(run.workspace);
    parallel_for(loops_.chunks(), loops_.work(),
                 [&](std::int64_t i) { results[i] = loss(loops_.chunk(logits, i), labels + loops_.label(i)); });
    double total = 0;
    bool fit = true;
    for (std::int64_t i = 0; i < loops_.chunks(); ++i) {
      total += results[i].loss;
      fit = fit && results[i].labels_fit != 0;
    }
    if (!fit) check_labels(rule_, labels, loops_.rows());
    *f32(run.out[0]) = static_cast<float>(total * weight_of_row(rule_, rule_.ignores ? run.in[2] : nullptr));
  }

 private:
  ChunkResult loss(const MapChunk& chunk, const std::int32_t* labels) const {
    float sums[kMostPositions];
    const double most = static_cast<double>(loops_.sums(chunk, sums));
    // Σ log s = log Π s: a logarithm for a few positions at a time. The product stays within the range of a double, for a sum is
    // from kLeastSum to the number of classes.
    constexpr std::int64_t kFactors = 14;
    double total = 0, targets = 0;
    std::int64_t shifted = 0;  // positions whose sums are relative to `most`
    for (std::int64_t from = 0; from < chunk.count; from += kFactors) {
      double product = 1;
      for (std::int64_t p = from; p < std::min(chunk.count, from + kFactors); ++p) {
        const std::int32_t label = labels[p];
        if (!rule_.counts(label)) continue;
        if (!rule_.fits(label)) return {0, 0};
        targets += static_cast<double>(chunk.logits[loops_.at(p, label)]);
        if (sums[p] < kLeastSum) {
          total += loops_.own_sum(chunk, p).log();
        } else {
          ++shifted;
          product *= static_cast<double>(sums[p]);
        }
        if (rule_.smoothing > 0) total -= rule_.smoothing / static_cast<double>(rule_.classes) * logits_sum(chunk, p);
      }
      total += std::log(product);
    }
    return {total + static_cast<double>(shifted) * most - (1 - rule_.smoothing) * targets, 1};
  }

  double logits_sum(const MapChunk& chunk, std::int64_t p) const {
    double sum = 0;
    for (std::int64_t k = 0; k < chunk.classes; ++k) sum += static_cast<double>(chunk.logits[loops_.at(p, k)]);
    return sum;
  }

  LabelRule rule_;
  MapLoops loops_;
};

class MapGradient : public Kernel {
 public:
  MapGradient(const Call& call, const StorageRule& storage) : rule_(call.site, 3), loops_(call, storage) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return loops_.chunks() * static_cast<std::int64_t>(sizeof(std::int64_t)); }
  void run(const KernelRun& run) const override {
    const float* const logits = f32(run.in[0]);
    const std::int32_t* const labels = i32(run.in[1]);
    const double scale = static_cast<double>(*f32(run.in[2])) * weight_of_row(rule_, rule_.ignores ? run.in[3] : nullptr);
    float* const gradient = f32(run.out[0]);
    auto* const labels_fit = reinterpret_cast<std::int64_t*>(run.workspace);
    parallel_for(loops_.chunks(), loops_.work(), [&](std::int64_t i) {
      labels_fit[i] =
          fill(loops_.chunk(logits, i), labels + loops_.label(i), static_cast<float>(scale), gradient + loops_.offset(i));
    });
    bool fit = true;
    for (std::int64_t i = 0; i < loops_.chunks(); ++i) fit = fit && labels_fit[i] != 0;
    if (!fit) check_labels(rule_, labels, loops_.rows());
  }

 private:
  bool fill(const MapChunk& chunk, const std::int32_t* labels, float scale, float* out) const {
    float sums[kMostPositions], factors[kMostPositions], shifts[kMostPositions];
    loops_.exponentials(chunk, out, sums);
    const float smoothed = scale * static_cast<float>(rule_.smoothing / static_cast<double>(rule_.classes));
    for (std::int64_t p = 0; p < chunk.count; ++p) {
      if (sums[p] < kLeastSum) sums[p] = shift_by_own(chunk, p, out);
      const bool counts = rule_.counts(labels[p]);
      factors[p] = counts ? scale / sums[p] : 0.0F;
      shifts[p] = counts ? smoothed : 0.0F;
    }
    loops_.scale(chunk, factors, shifts, out);
    const float target = scale * static_cast<float>(1 - rule_.smoothing);
    for (std::int64_t p = 0; p < chunk.count; ++p) {
      if (!rule_.counts(labels[p])) continue;
      if (!rule_.fits(labels[p])) return false;
      out[loops_.at(p, labels[p])] -= target;
    }
    return true;
  }

  // The exponentials of position p, relative to its own maximum; their sum.
  float shift_by_own(const MapChunk& chunk, std::int64_t p, float* out) const {
    const ExponentialSum all = loops_.own_sum(chunk, p);
    for (std::int64_t k = 0; k < chunk.classes; ++k) out[loops_.at(p, k)] = lane::exp(chunk.logits[loops_.at(p, k)] - all.most);
    return static_cast<float>(all.sum);
  }

  LabelRule rule_;
  MapLoops loops_;
};

template <class OfRows, class OfMaps>
std::unique_ptr<Kernel> make(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (call.site.in(0).format == Format::plain) return std::make_unique<OfRows>(call);
  require_blocks(call, storage);
  return std::make_unique<OfMaps>(call, storage);
}

}  // namespace

void cpu_softmax_cross_entropy(KernelTable& table) {
  table.add("softmax_cross_entropy", make<RowLoss, MapLoss>);
  table.add("softmax_cross_entropy_grad", make<RowGradient, MapGradient>);
}

}  // namespace outsize
