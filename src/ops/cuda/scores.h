#pragma once

#include "ops/attention/attention.h"
#include "ops/cuda/philox.h"
#include "ops/cuda/rows.h"
#include "ops/dropout/dropout.h"

// Rows of attention's scores: softmax with scale, mask and dropout in place, and its gradient.
namespace outsize::OUTSIZE_PLACE {

// What is done to rows of scores before the softmax and after it. A row is the products q · k of one query of one pair of a sample
// and a head with all keys. A launch has a range of the queries, of the heads and of the samples of a call, and its rows follow
// each other by query, then head, then sample.
struct Scores {
  Divide queries, heads;  // of the launch
  // Where the launch begins in the call.
  std::int64_t first_sample = 0;
  std::int64_t first_head = 0;
  std::int64_t first_query = 0;

  int keys = 0;
  int width = 0;  // of a head
  bool causal = false;
  float scale = 1;
  const float* mask = nullptr;  // added to the scaled scores; its strides are 0 where it has one for all
  std::int64_t mask_sample = 0, mask_head = 0, mask_query = 0;
  DropoutFactors dropout;

  // The call among the whole value.
  std::int64_t call_queries = 0;
  std::int64_t call_heads = 0;
  std::int64_t sample_from = 0, head_from = 0, query_from = 0;
  std::int64_t all_heads = 0, all_queries = 0;

  Scores() = default;
  // All rows of a call on box `q` of the queries [B, Tq, H·D]; `mask_data` and `key` are null where the op has none.
  Scores(const AttentionShape& shape, const Box& q, const float* mask_data, const Box& mask_box, const std::uint32_t* key)
      : queries(q.extent(1)),
        heads(q.extent(2) / shape.width),
        keys(static_cast<int>(shape.keys)),
        width(static_cast<int>(shape.width)),
        causal(shape.causal),
        scale(static_cast<float>(shape.scale)),
        mask(mask_data),
        call_queries(q.extent(1)),
        call_heads(q.extent(2) / shape.width),
        sample_from(q.lo[0]),
        head_from(q.lo[2] / shape.width),
        query_from(q.lo[1]),
        all_heads(shape.heads),
        all_queries(shape.queries) {
    if (mask != nullptr) {
      const std::int64_t row = mask_box.extent(3);
      mask_query = mask_box.extent(2) > 1 ? row : 0;
      mask_head = mask_box.extent(1) > 1 ? mask_box.extent(2) * row : 0;
      mask_sample = mask_box.extent(0) > 1 ? mask_box.extent(1) * mask_box.extent(2) * row : 0;
    }
    if (key != nullptr)
      dropout = {key, shape.stream, static_cast<std::uint32_t>(dropout_threshold(shape.dropout)),
                 static_cast<float>(1 / (1 - shape.dropout))};
  }
  // The part of it that a launch does, from this sample, head and query on.
  Scores part(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t head_count, std::int64_t query_count) const {
    Scores result = *this;
    result.first_sample = sample;
    result.first_head = head;
    result.first_query = query;
    result.heads = Divide(head_count);
    result.queries = Divide(query_count);
    return result;
  }

  // A row of scores.
  struct Line {
    int visible = 0;              // keys that the query sees
    const float* mask = nullptr;  // of the row
    std::uint64_t place = 0;      // of the row's first weight among all weights
    std::int64_t query = 0;       // where the row's number is among [B, H, Tq] of the call
    std::int64_t feature = 0;     // where the row's features are among [B, Tq, H, D] of the call
  };
  OUTSIZE_BOTH Line line(std::int64_t r) const {
    const std::uint32_t row = static_cast<std::uint32_t>(r), pair = queries.quotient(row), of_launch = heads.quotient(pair);
    return line(first_sample + of_launch, first_head + (pair - of_launch * heads.by()), first_query + (row - pair * queries.by()));
  }
  // The row of a sample, a head and a query of the call.
  OUTSIZE_BOTH Line line(std::int64_t sample, std::int64_t head, std::int64_t query) const {
    Line line;
    line.visible = visible(query);
    if (mask != nullptr) line.mask = mask + sample * mask_sample + head * mask_head + query * mask_query;
    line.place = static_cast<std::uint64_t>(
        (((sample_from + sample) * all_heads + head_from + head) * all_queries + query_from + query) * keys);
    line.query = (sample * call_heads + head) * call_queries + query;
    line.feature = ((sample * call_queries + query) * call_heads + head) * width;
    return line;
  }
  // The keys that a query of the call sees: those before this one.
  OUTSIZE_BOTH int visible(std::int64_t query) const {
    std::int64_t seen = causal ? query_from + query + 1 + keys - all_queries : keys;
    seen = seen < 0 ? 0 : seen;
    return static_cast<int>(seen < keys ? seen : keys);
  }

  bool vectors() const {
    return mask == nullptr || (aligned<4>(mask) && mask_sample % 4 == 0 && mask_head % 4 == 0 && mask_query % 4 == 0);
  }

  // The scores of V columns: −∞ where the query does not see the key.
  template <int V>
  OUTSIZE_BOTH Vector<float, V> of(const Vector<float, V>& products, int column, const Line& line) const {
    Vector<float, V> result;
    Vector<float, V> added{};
    if (line.mask != nullptr && column < line.visible) added = load<V>(line.mask + column);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) result.of[j] = column + j < line.visible ? products.of[j] * scale + added.of[j] : -INFINITY;
    return result;
  }
  // What dropout multiplies the weights of V columns by.
  template <int V>
  OUTSIZE_BOTH Vector<float, V> factors(int column, const Line& line) const {
    if (dropout.key != nullptr) return dropout.factors<V>(line.place + static_cast<std::uint64_t>(column));
    Vector<float, V> ones;
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) ones.of[j] = 1;
    return ones;
  }
};

// In place: the products q · k become softmax(scale · product + mask) · dropout, 0 where the query does not see the key, and all of
// a row that sees none; log Σ e^score of the row goes to lse [B, H, Tq] of the call, 0 where it sees none.
//   run_rows(ScoresSoftmax{scores, lse}, {products}, {weights}, RowShape(rows, keys), queue)
struct ScoresSoftmax : PlainRows {
  static constexpr int kInputs = 1;
  static constexpr int kOutputs = 1;
  using Line = Scores::Line;
  using Partial = ExponentialSum;
  struct Row {
    float most, inverse, lse;
    Line line;
  };

  Scores scores;
  float* lse;

  ScoresSoftmax(const Scores& of, float* log_sums) : scores(of), lse(log_sums) {}
  bool vectors() const { return scores.vectors(); }
  OUTSIZE_BOTH Line line(std::int64_t row) const { return scores.line(row); }
  OUTSIZE_BOTH int visible(const Line& line) const { return line.visible; }
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, const Line& line) const {
    constexpr int V = Batch::kWide;
    float x[Batch::kVectors * V];
    OUTSIZE_UNROLL
    for (int k = 0; k < Batch::kVectors; ++k) {
      const Vector<float, V> scored = scores.of(batch.x[k][0], batch.column(k), line);
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) x[k * V + j] = scored.of[j];
    }
    partial.add(x);
  }
  OUTSIZE_BOTH Row row(const Partial& all, const Line& line) const {
    if (all.nothing()) return {0, 0, 0, line};
    return {all.most, static_cast<float>(1 / all.sum), static_cast<float>(all.log_sum()), line};
  }
  OUTSIZE_BOTH void finish(std::int64_t, const Row& row) const { lse[row.line.query] = row.lse; }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int column, const Row& row, Vector<float, V>* y) const {
    if (column >= row.line.visible) {
      y[0] = {};
      return;
    }
    const Vector<float, V> scored = scores.of(x[0], column, row.line), factors = scores.factors<V>(column, row.line);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j)
      y[0].of[j] = column + j < row.line.visible ? expf(scored.of[j] - row.most) * row.inverse * factors.of[j] : 0.0f;
  }
};

// In place: from the products q · k and dy · v of the same rows, and what the forward gave, the products become the weights of the
// forward (dropout in them), and dy · v the gradient of q · k:
//   scale · P · (F · dy·v − D)      P: the weights without dropout, F: dropout's factors, D = Σ dy · y (Dao et al. 2022, B.4)
//   run_rows(ScoresSoftmaxGrad{scores, lse, dy, y}, {products, dyv}, {weights, dproducts}, RowShape(rows, keys), queue)
struct ScoresSoftmaxGrad : PlainRows {
  static constexpr int kInputs = 2;
  static constexpr int kOutputs = 2;
  struct Line : Scores::Line {
    float lse = 0;
  };
  struct Partial {
    double sum = 0;
    OUTSIZE_BOTH void merge(const Partial& other) { sum += other.sum; }
  };
  struct Row {
    float sum;
    Line line;
  };

  Scores scores;
  const float* lse;  // [B, H, Tq] of the call
  const float* dy;   // [B, Tq, H, D] of the call
  const float* y;    // likewise

  ScoresSoftmaxGrad(const Scores& of, const float* log_sums, const float* result_gradient, const float* result)
      : scores(of), lse(log_sums), dy(result_gradient), y(result) {}
  bool vectors() const { return scores.vectors(); }
  OUTSIZE_BOTH Line line(std::int64_t row) const {
    Line line{scores.line(row)};
    line.lse = lse[line.query];
    return line;
  }
  OUTSIZE_BOTH int visible(const Line& line) const { return line.visible; }
  // Not of the row itself, but of dy and y: those who share the row share their features, with the first batch of each.
  template <class Batch>
  OUTSIZE_BOTH void add(Partial& partial, const Batch& batch, const Line& line) const {
    if (batch.first >= batch.step) return;
    float sum = 0;
    for (int d = batch.first / Batch::kWide; d < scores.width; d += batch.step / Batch::kWide)
      sum += dy[line.feature + d] * y[line.feature + d];
    partial.sum += sum;
  }
  OUTSIZE_BOTH Row row(const Partial& all, const Line& line) const { return {static_cast<float>(all.sum), line}; }
  template <int V>
  OUTSIZE_BOTH void write(const Vector<float, V>* x, int column, const Row& row, Vector<float, V>* y_out) const {
    y_out[0] = y_out[1] = {};
    if (column >= row.line.visible) return;
    const Vector<float, V> scored = scores.of(x[0], column, row.line), factors = scores.factors<V>(column, row.line);
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      if (column + j >= row.line.visible) continue;
      const float weight = expf(scored.of[j] - row.line.lse);
      y_out[0].of[j] = weight * factors.of[j];
      y_out[1].of[j] = scores.scale * weight * (factors.of[j] * x[1].of[j] - row.sum);
    }
  }
};

}  // namespace outsize::OUTSIZE_PLACE
