#pragma once

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/cuda/support.h"

// What happens to a row of scores, one query's of one sample and head, between the matrix products of attention: mask, softmax and
// dropout, and their gradient.
namespace outsize::OUTSIZE_PLACE::attention_rows {

inline constexpr int kLanes = 4;  // elements that a thread loads at once

// The mask of a call: elements from a sample, head or query to the next, 0 where there is one for all.
struct Mask {
  const float* data = nullptr;
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;

  Mask() = default;
  Mask(const float* mask, const Box& box) : data(mask) {
    const std::int64_t row = box.extent(3);
    query = box.extent(2) > 1 ? row : 0;
    head = box.extent(1) > 1 ? box.extent(2) * row : 0;
    sample = box.extent(0) > 1 ? box.extent(1) * box.extent(2) * row : 0;
  }
};

// Dropout of weights by their place among all weights. The key lies in memory of the card.
struct Draw {
  const std::uint32_t* key = nullptr;  // null: nothing is dropped
  std::uint32_t stream = 0;
  std::uint32_t threshold = 0;
  float kept = 1;  // what a weight that is kept is multiplied by

  // Philox4x32-10 as base/philox.h: the four words of a block.
  struct Words {
    std::uint32_t of[4];
  };
  OUTSIZE_BOTH Words words(std::uint64_t block) const {
    std::uint32_t a = static_cast<std::uint32_t>(block), b = static_cast<std::uint32_t>(block >> 32), c = stream, d = key[2];
    std::uint32_t k0 = key[0], k1 = key[1];
    OUTSIZE_UNROLL
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t left = std::uint64_t{0xD2511F53} * a, right = std::uint64_t{0xCD9E8D57} * c;
      a = static_cast<std::uint32_t>(right >> 32) ^ b ^ k0;
      b = static_cast<std::uint32_t>(right);
      c = static_cast<std::uint32_t>(left >> 32) ^ d ^ k1;
      d = static_cast<std::uint32_t>(left);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return {{a, b, c, d}};
  }
  // The factors of the weights from `place` on.
  OUTSIZE_BOTH Vector<float, kLanes> factors(std::int64_t place) const {
    Vector<float, kLanes> factors;
    if (key == nullptr) {
      OUTSIZE_UNROLL
      for (int e = 0; e < kLanes; ++e) factors.of[e] = 1;
      return factors;
    }
    const auto at = static_cast<std::uint64_t>(place);
    const Words first = words(at / 4);
    const auto factor = [&](std::uint32_t word) { return word >= threshold ? kept : 0.0f; };
    if (at % 4 == 0) {
      OUTSIZE_UNROLL
      for (int e = 0; e < kLanes; ++e) factors.of[e] = factor(first.of[e]);
    } else {
      const Words second = words(at / 4 + 1);
      for (int e = 0; e < kLanes; ++e) {
        const auto word = static_cast<int>(at % 4) + e;
        factors.of[e] = factor(word < 4 ? first.of[word] : second.of[word - 4]);
      }
    }
    return factors;
  }
};

// Where a row of scores is: in the call, and in the whole value.
struct Row {
  std::int64_t sample, head, query;  // of the call
  int keys;                          // that it sees
  std::int64_t place;                // of its first weight among all weights
};

// The rows of some samples, heads and queries, one after the other. `stride` elements apart, a multiple of kLanes.
struct Rows {
  Divide heads, queries;
  std::uint32_t count = 0;
  std::int64_t stride = 0;
  int keys = 0;  // of a row of these scores
  // The first of them in the call; where the call begins in the value.
  std::int64_t sample = 0, head = 0, query = 0;
  std::int64_t call_sample = 0, call_head = 0, call_query = 0;
  // Extents of the whole value.
  std::int64_t all_heads = 1, all_queries = 1, all_keys = 1;
  bool causal = false;
  Mask mask;
  Draw draw;

  OUTSIZE_BOTH Row row(std::uint32_t r) const {
    const std::uint32_t pair = queries.quotient(r), s = heads.quotient(pair);
    Row row{sample + s, head + (pair - s * heads.by()), query + (r - pair * queries.by()), keys, 0};
    const std::int64_t global = call_query + row.query;
    if (causal) {
      const std::int64_t seen = global + 1 + all_keys - all_queries;
      if (seen < row.keys) row.keys = seen > 0 ? static_cast<int>(seen) : 0;
    }
    row.place = (((call_sample + row.sample) * all_heads + call_head + row.head) * all_queries + global) * all_keys;
    return row;
  }
  // The scores from key j on, with the mask; −∞ for keys that the row does not see.
  OUTSIZE_BOTH Vector<float, kLanes> scores(const Row& row, const float* from, int j) const {
    Vector<float, kLanes> s = load<kLanes>(from + j);
    OUTSIZE_UNROLL
    for (int e = 0; e < kLanes; ++e) {
      if (j + e >= row.keys)
        s.of[e] = -INFINITY;
      else if (mask.data != nullptr)
        s.of[e] += mask.data[row.sample * mask.sample + row.head * mask.head + row.query * mask.query + j + e];
    }
    return s;
  }
};

// How the threads of a block lie over rows: `wide` of them, a power of two, share a row.
struct Lanes {
  static constexpr int kThreads = 128;
  static constexpr int kHeld = 4;  // vectors that a thread keeps in registers

  int wide = 1;

  explicit Lanes(int keys) {
    while (wide < kThreads && wide * kHeld * kLanes < keys) wide *= 2;
  }
  OUTSIZE_BOTH int high() const { return kThreads / wide; }
  Grid grid(std::uint32_t rows, int numbers) const {
    return {ceil_divide(rows, high()), 1, static_cast<std::int64_t>(kThreads * numbers * sizeof(float))};
  }
};

// Calls merge(i, j) so that what `wide` threads have, of which thread i is the first, comes together in i.
template <class Block, class Merge>
OUTSIZE_BOTH void gather_rows(Block& block, const Lanes& lanes, const Merge& merge) {
  for (int half = lanes.wide / 2; half > 0; half /= 2)
    block.each([&](int thread) {
      if (thread % lanes.wide < half) merge(thread, thread + half);
    });
}

// weights = softmax(scores) · dropout's factors, in place; lse = log Σ e^score. Of rows that see nothing, zeros.
struct Softmax {
  static constexpr int kThreads = Lanes::kThreads;
  static constexpr int kBlocks = 4;

  Rows rows;
  Lanes lanes;
  float* scores;
  float* lse;                         // of the call
  std::int64_t lse_sample, lse_head;  // elements from a sample, and from a head, to the next

  void start(void* queue) const { launch(*this, lanes.grid(rows.count, 3), queue); }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    struct Held {
      Vector<float, kLanes> of[Lanes::kHeld];
    };
    typename Block::template Own<Held> held;
    float* const most = reinterpret_cast<float*>(block.shared());
    float* const any = most + kThreads;  // not 0 where a score is not −∞: a NaN is not
    float* const sum = any + kThreads;
    const auto first_row = static_cast<std::uint32_t>(block.x()) * lanes.high();

    block.each([&](int thread) {
      float highest = -INFINITY;
      bool found = false;
      for_each_vector(first_row, thread, held[thread].of, [&](const Row& row, const float* from, int j, auto* keep) {
        const Vector<float, kLanes> s = rows.scores(row, from, j);
        OUTSIZE_UNROLL
        for (int e = 0; e < kLanes; ++e) {
          if (s.of[e] > highest) highest = s.of[e];
          found = found || s.of[e] != -INFINITY;
        }
        if (keep != nullptr) *keep = s;
      });
      most[thread] = highest;
      any[thread] = found ? 1.0f : 0.0f;
    });
    gather_rows(block, lanes, [&](int i, int j) {
      if (most[j] > most[i]) most[i] = most[j];
      any[i] += any[j];
    });
    block.each([&](int thread) {
      const int first = thread - thread % lanes.wide;
      const float highest = most[first];
      float total = 0;
      for_each_vector(first_row, thread, held[thread].of, [&](const Row& row, const float* from, int j, auto* keep) {
        Vector<float, kLanes> s = keep != nullptr ? *keep : rows.scores(row, from, j);
        OUTSIZE_UNROLL
        for (int e = 0; e < kLanes; ++e) {
          s.of[e] = j + e < row.keys ? expf(s.of[e] - highest) : 0.0f;
          total += s.of[e];
        }
        if (keep != nullptr) *keep = s;
      });
      sum[thread] = total;
    });
    gather_rows(block, lanes, [&](int i, int j) { sum[i] += sum[j]; });
    block.last([&](int thread) {
      const int first = thread - thread % lanes.wide;
      const bool seen = any[first] != 0;
      const float highest = most[first], total = sum[first], scale = 1 / total;
      for_each_vector(first_row, thread, held[thread].of, [&](const Row& row, float* from, int j, auto* keep) {
        Vector<float, kLanes> s = keep != nullptr ? *keep : rows.scores(row, from, j);
        const Vector<float, kLanes> factors = rows.draw.factors(row.place + j);
        OUTSIZE_UNROLL
        for (int e = 0; e < kLanes; ++e) {
          if (keep == nullptr) s.of[e] = j + e < row.keys ? expf(s.of[e] - highest) : 0.0f;
          s.of[e] = seen ? s.of[e] * scale * factors.of[e] : 0.0f;
        }
        store(from + j, s);
      });
      if (const std::uint32_t r = first_row + thread / lanes.wide; thread == first && r < rows.count) {
        const Row row = rows.row(r);
        lse[row.sample * lse_sample + row.head * lse_head + row.query] = seen ? highest + logf(total) : 0.0f;
      }
    });
  }

 private:
  // Calls f(row, row's scores, key, kept) for the vectors of a thread; `kept` is where a vector is kept, null for those past what a
  // thread can keep.
  template <class F>
  OUTSIZE_BOTH void for_each_vector(std::uint32_t first_row, int thread, Vector<float, kLanes> (&held)[Lanes::kHeld],
                                    const F& f) const {
    const std::uint32_t r = first_row + thread / lanes.wide;
    if (r >= rows.count) return;
    const Row row = rows.row(r);
    float* const from = scores + r * rows.stride;
    int j = thread % lanes.wide * kLanes;
    OUTSIZE_UNROLL
    for (int n = 0; n < Lanes::kHeld; ++n, j += lanes.wide * kLanes)
      if (j < rows.keys) f(row, from, j, &held[n]);
    for (; j < rows.keys; j += lanes.wide * kLanes) f(row, from, j, static_cast<Vector<float, kLanes>*>(nullptr));
  }
};

// With P the weights before dropout, F its factors and D = dy · y of the row: P ∘ F in place of the scores, and
// P ∘ (F ∘ products − D) in place of the products dy · v.
struct SoftmaxGradient {
  static constexpr int kThreads = Lanes::kThreads;
  static constexpr int kBlocks = 4;

  Rows rows;
  Lanes lanes;
  float* scores;
  float* products;
  const float* dy;  // of the call, as y
  const float* y;
  std::int64_t sample_stride, query_stride;  // of dy and y; that of heads is `width`
  int width;
  const float* lse;
  std::int64_t lse_sample, lse_head;

  void start(void* queue) const { launch(*this, lanes.grid(rows.count, 1), queue); }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    float* const sum = reinterpret_cast<float*>(block.shared());
    const auto first_row = static_cast<std::uint32_t>(block.x()) * lanes.high();
    block.each([&](int thread) {
      float total = 0;
      if (const std::uint32_t r = first_row + thread / lanes.wide; r < rows.count) {
        const Row row = rows.row(r);
        const std::int64_t at = row.sample * sample_stride + row.query * query_stride + row.head * width;
        for (int d = thread % lanes.wide; d < width; d += lanes.wide) total += dy[at + d] * y[at + d];
      }
      sum[thread] = total;
    });
    gather_rows(block, lanes, [&](int i, int j) { sum[i] += sum[j]; });
    block.last([&](int thread) {
      const std::uint32_t r = first_row + thread / lanes.wide;
      if (r >= rows.count) return;
      const Row row = rows.row(r);
      const float mean = sum[thread - thread % lanes.wide];
      const float own_lse = lse[row.sample * lse_sample + row.head * lse_head + row.query];
      float* const s_row = scores + r * rows.stride;
      float* const p_row = products + r * rows.stride;
      for (int j = thread % lanes.wide * kLanes; j < rows.keys; j += lanes.wide * kLanes) {
        Vector<float, kLanes> s = rows.scores(row, s_row, j), p = load<kLanes>(p_row + j);
        const Vector<float, kLanes> factors = rows.draw.factors(row.place + j);
        OUTSIZE_UNROLL
        for (int e = 0; e < kLanes; ++e) {
          const bool seen = j + e < row.keys;
          const float weight = expf(s.of[e] - own_lse);
          s.of[e] = seen ? weight * factors.of[e] : 0.0f;
          p.of[e] = seen ? weight * (factors.of[e] * p.of[e] - mean) : 0.0f;
        }
        store(s_row + j, s);
        store(p_row + j, p);
      }
    });
  }
};

}  // namespace outsize::OUTSIZE_PLACE::attention_rows
