#pragma once

#include <cmath>
#include <limits>

#include "ops/attention/cpu_blocks.h"
#include "ops/cpu_philox.h"
#include "ops/softmax/cpu_weight.h"

// The loops of attention over one block of scores, which is held transposed: a row a key, a lane a query, kQueries lanes a row. So
// maxima, sums and factors of the queries need no sums across lanes. `lanes` are whole lines; those past the last query hold
// numbers that nobody reads.
namespace outsize::attention_loops {

inline constexpr std::int64_t kQueries = 64;  // of a block
inline constexpr std::int64_t kKeys = 128;
inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// Rows of `width` numbers, `stride` apart, times `factor`, to dense rows of `padded`; what pads them is zero.
OUTSIZE_CLONES inline void pack_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t width, float factor,
                                     float* to, std::int64_t padded) {
  for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) to[r * padded + c] = factor * from[r * stride + c];
    for (std::int64_t c = width; c < padded; ++c) to[r * padded + c] = 0;
  }
}

// Dense rows to kQueries lanes a column; lanes past the rows are zero.
OUTSIZE_CLONES inline void transpose(const float* from, std::int64_t rows, std::int64_t width, std::int64_t padded, float* to,
                                     std::int64_t lanes) {
  constexpr std::int64_t kTile = 8;  // rows whose lines are used up together
  for (std::int64_t r = 0; r < lanes; r += kTile)
    for (std::int64_t c = 0; c < width; ++c)
      for (std::int64_t i = r; i < r + kTile; ++i) to[c * kQueries + i] = i < rows ? from[i * padded + c] : 0.0f;
}

// to (rows `stride` apart) += factor · from (dense rows).
OUTSIZE_CLONES inline void add_rows(const float* from, std::int64_t padded, std::int64_t rows, std::int64_t width, float factor,
                                    float* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r)
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) to[r * stride + c] += factor * from[r * padded + c];
}

// Adds one number a key.
OUTSIZE_CLONES inline void add_per_key(const float* mask, std::int64_t keys, float* scores, std::int64_t lanes) {
  for (std::int64_t j = 0; j < keys; ++j)
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) scores[j * kQueries + i] += mask[j];
}

// Adds a mask with a row of `stride` numbers a query.
OUTSIZE_CLONES inline void add_per_query(const float* mask, std::int64_t stride, std::int64_t keys, float* scores,
                                         std::int64_t queries) {
  for (std::int64_t j = 0; j < keys; ++j)
    for (std::int64_t i = 0; i < queries; ++i) scores[j * kQueries + i] += mask[i * stride + j];
}

// One block of the softmax (Milakov and Gimelshein 2018): updates the maximum and the sum of every query, replaces the scores by
// e^(score − maximum), and gives the factor that earlier blocks' terms must be multiplied by.
OUTSIZE_CLONES inline void accumulate_softmax(float* scores, std::int64_t keys, std::int64_t lanes, float* most, float* sum,
                                              float* correction) {
  for (std::int64_t line = 0; line < lanes; line += kLine) {
    float* const column = scores + line;
    float top[kLine], base[kLine], total[kLine];
    for (std::int64_t i = 0; i < kLine; ++i) top[i] = most[line + i];
    for (std::int64_t j = 0; j < keys; ++j)
#pragma omp simd
      for (std::int64_t i = 0; i < kLine; ++i) top[i] = column[j * kQueries + i] > top[i] ? column[j * kQueries + i] : top[i];
#pragma omp simd
    for (std::int64_t i = 0; i < kLine; ++i) {
      base[i] = top[i] == kNoScore ? 0.0f : top[i];  // where every key is masked
      correction[line + i] = softmax_weight(most[line + i] - base[i]);
      total[i] = sum[line + i] * correction[line + i];
      most[line + i] = top[i];
    }
    for (std::int64_t j = 0; j < keys; ++j)
#pragma omp simd
      for (std::int64_t i = 0; i < kLine; ++i) {
        const float e = softmax_weight(column[j * kQueries + i] - base[i]);
        column[j * kQueries + i] = e;
        total[i] += e;
      }
    for (std::int64_t i = 0; i < kLine; ++i) sum[line + i] = total[i];
  }
}

// scores = e^(score − lse)
OUTSIZE_CLONES inline void softmax_again(float* scores, std::int64_t keys, std::int64_t lanes, const float* lse) {
  for (std::int64_t j = 0; j < keys; ++j)
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) scores[j * kQueries + i] = softmax_weight(scores[j * kQueries + i] - lse[i]);
}

OUTSIZE_CLONES inline void multiply_elements(const float* factors, std::int64_t keys, float* block, std::int64_t lanes) {
  for (std::int64_t j = 0; j < keys; ++j)
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) block[j * kQueries + i] *= factors[j * kQueries + i];
}

// products = weights · (products − means): dS from the weights P, (F ∘) dy vᵀ and D.
OUTSIZE_CLONES inline void score_gradient(const float* weights, const float* means, std::int64_t keys, float* products,
                                          std::int64_t lanes) {
  for (std::int64_t j = 0; j < keys; ++j)
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i)
      products[j * kQueries + i] = weights[j * kQueries + i] * (products[j * kQueries + i] - means[i]);
}

OUTSIZE_CLONES inline float dot(const float* a, const float* b, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}

OUTSIZE_CLONES inline void scale_row(float* row, float factor, std::int64_t width) {
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) row[c] *= factor;
}

// What the random words of a call are drawn from, beside the places of the weights.
struct Draw {
  std::uint32_t key0 = 0;
  std::uint32_t key1 = 0;
  std::uint32_t step = 0;
  std::uint32_t stream = 0;
  std::uint32_t threshold = 0;
  float scale = 1;
};

// Dropout's factors of a block: key j of lane i has the place `first` + i · stride + j. Where strides allow, the four words of a
// Philox block belong to four keys, the same four in every lane.
OUTSIZE_CLONES inline void draw_factors(const Draw& draw, std::int64_t first, std::int64_t stride, std::int64_t keys,
                                        float* factors, std::int64_t lanes) {
  const auto place = static_cast<std::uint64_t>(first);
  const auto step = static_cast<std::uint64_t>(stride);
  const Draw d = draw;
  const bool together = first % 4 == 0 && stride % 4 == 0 && keys % 4 == 0;
  for (std::int64_t j = 0; j < keys; j += together ? 4 : 1)
    for (std::int64_t line = 0; line < lanes; line += kLine) {
      float* const row = factors + j * kQueries + line;
      const std::uint64_t at = place + static_cast<std::uint64_t>(line) * step + static_cast<std::uint64_t>(j);
      std::uint32_t w0[kLine], w1[kLine], w2[kLine], w3[kLine];
#pragma omp simd
      for (std::int64_t i = 0; i < kLine; ++i) {
        const std::array<std::uint32_t, 4> words =
            philox_lane((at + static_cast<std::uint64_t>(i) * step) / 4, d.stream, d.step, d.key0, d.key1);
        w0[i] = words[0];
        w1[i] = words[1];
        w2[i] = words[2];
        w3[i] = words[3];
      }
      if (together) {
#pragma omp simd
        for (std::int64_t i = 0; i < kLine; ++i) {
          row[i] = w0[i] >= d.threshold ? d.scale : 0.0f;
          row[kQueries + i] = w1[i] >= d.threshold ? d.scale : 0.0f;
          row[2 * kQueries + i] = w2[i] >= d.threshold ? d.scale : 0.0f;
          row[3 * kQueries + i] = w3[i] >= d.threshold ? d.scale : 0.0f;
        }
      } else {
        for (std::int64_t i = 0; i < kLine; ++i) {
          const std::uint32_t words[4] = {w0[i], w1[i], w2[i], w3[i]};
          row[i] = words[(at + static_cast<std::uint64_t>(i) * step) % 4] >= d.threshold ? d.scale : 0.0f;
        }
      }
    }
}

}  // namespace outsize::attention_loops
