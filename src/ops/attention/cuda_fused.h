#pragma once

#include <memory>

#include "ops/attention/cuda_attention.h"
#include "ops/cuda/fragments.h"
#include "ops/cuda/scores.h"

// Fused attention in TF32: scores are made block by block in registers, and never lie in memory (Dao et al. 2022). This has what
// the forward and the gradient share. A block of threads has a block of the queries (or keys) of one sample and head, a warp some
// rows of it; keys and values (or queries and their gradients) come through shared memory, the next ones while those that are there
// are worked on.
namespace outsize::OUTSIZE_PLACE {

// Whether the fused kernels do this call: heads of up to 128 features, rows in whole quads, and keys in whole quads where masks or
// random numbers are taken with them.
bool fused_applies(const AttentionShape& shape);

// The kernels of a call that fused_applies() is true of. Both keep what the composed ones keep in `lse`.
std::unique_ptr<Kernel> make_fused_forward(const AttentionShape& shape);
std::unique_ptr<Kernel> make_fused_backward(const AttentionShape& shape, const Box& q);

// The scores of a call on box `q` of the queries; mask and key are inputs of the run.
inline Scores scores_of(const AttentionShape& shape, const KernelRun& run, const Box& q) {
  const auto mask = static_cast<std::size_t>(shape.mask);
  return {shape, q, shape.mask < 0 ? nullptr : in<float>(run, shape.mask), shape.mask < 0 ? Box() : run.in_boxes[mask],
          shape.key < 0 ? nullptr : in<std::uint32_t>(run, shape.key)};
}

inline constexpr float kLog2OfE = 1.44269504088896340736f;
inline constexpr float kLogOf2 = 0.69314718055994530942f;

// 2^x, to 2 units in the last place; 0 for −∞ and NaN for NaN.
inline OUTSIZE_BOTH float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return std::exp2(x);
#endif
}

// A call of a fused kernel: how blocks of threads share it, and what is done to its scores. Logarithms are of base 2 in here.
struct FusedCall {
  Scores scores;
  int queries = 0;
  std::int64_t features = 0;  // floats from a query, or key, to the next
  // A block of threads has a part of one pair of a sample and a head. Parts of a pair follow each other; where queries see the keys
  // before them only, equal parts of all pairs do, those with most work first.
  Divide parts, pairs, heads;
  bool heavy_part_is_last = false;

  FusedCall() = default;
  // `rows` queries or keys are cut in parts of `block`.
  FusedCall(const Scores& of, std::int64_t rows, std::int64_t block, std::int64_t samples, bool heavy_last)
      : scores(of),
        queries(static_cast<int>(of.call_queries)),
        features(of.call_heads * of.width),
        parts(ceil_divide(rows, block)),
        pairs(samples * of.call_heads),
        heads(of.call_heads),
        heavy_part_is_last(heavy_last) {}
  std::int64_t blocks() const { return std::int64_t{parts.by()} * pairs.by(); }

  struct Place {
    std::int64_t sample, head;
    int part;
    std::int64_t of_queries;   // where the pair's first query is among those of the call, in floats
    std::int64_t of_keys;      // its first key likewise
    std::int64_t of_rows;      // its first query in [B, H, Tq] of the call
    const float* mask;         // of its first query, or null
    std::uint64_t of_weights;  // its first query's first weight among all weights
  };
  OUTSIZE_BOTH Place place(std::int64_t block) const {
    const auto at = static_cast<std::uint32_t>(block);
    std::uint32_t pair, part;
    if (scores.causal) {
      part = pairs.quotient(at);
      pair = at - part * pairs.by();
      if (heavy_part_is_last) part = parts.by() - 1 - part;
    } else {
      pair = parts.quotient(at);
      part = at - pair * parts.by();
    }
    const std::uint32_t sample = heads.quotient(pair), head = pair - sample * heads.by();
    const Scores::Line first = scores.line(sample, head, 0);
    return {sample,
            head,
            static_cast<int>(part),
            first.feature,
            std::int64_t{sample} * scores.keys * features + std::int64_t{head} * scores.width,
            first.query,
            first.mask,
            first.place};
  }

  // What the left factor of the scores is multiplied by.
  OUTSIZE_BOTH float factor() const { return scores.scale * kLog2OfE; }

  // Scaled products become scores, but for keys that are not seen. A fragment's rows are queries from `query` on, its columns keys
  // from `key` on; `kColumnsAreQueries`: its columns are the queries and its rows the keys.
  template <bool kColumnsAreQueries, int kRows, int kColumns>
  OUTSIZE_BOTH void score(Warp warp, Fragment<kRows, kColumns>& x, const Place& place, int query, int key) const {
    if (place.mask == nullptr) return;
    each_quad(x, [&](int i, int j, Vector<float, 4>& quad) {
      const int row = held_row(warp, i), column = held_column(warp, j);
      if constexpr (kColumnsAreQueries) {
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c)
          if (key + row < scores.keys && query + column + c < queries)
            quad.of[c] += place.mask[(query + column + c) * scores.mask_query + key + row] * kLog2OfE;
      } else if (query + row < queries && key + column < scores.keys) {
        const Vector<float, 4> added = load<4>(place.mask + (query + row) * scores.mask_query + key + column);
        OUTSIZE_UNROLL
        for (int c = 0; c < 4; ++c) quad.of[c] += added.of[c] * kLog2OfE;
      }
    });
  }

  // Which of the weights of four keys from `key` on dropout keeps, for one query: a bit each.
  OUTSIZE_BOTH std::uint32_t kept(const Place& place, int query, int key) const {
    return scores.dropout.kept_of_four(place.of_weights +
                                       static_cast<std::uint64_t>(query) * static_cast<std::uint64_t>(scores.keys) +
                                       static_cast<std::uint64_t>(key));
  }

  OUTSIZE_BOTH bool sees(int query, int key) const { return query < queries && key < scores.visible(query); }
  // The first query that sees a key, or any number beyond.
  OUTSIZE_BOTH int first_query(int key) const {
    if (!scores.causal) return 0;
    const std::int64_t first = key - scores.query_from - scores.keys + scores.all_queries;
    return static_cast<int>(first < 0 ? 0 : first < queries ? first : queries);
  }
  // Whether every query from `query` on sees all keys before `key`, and there are so many.
  OUTSIZE_BOTH bool all_seen(int query, int key) const { return key <= scores.visible(query); }
};

}  // namespace outsize::OUTSIZE_PLACE
