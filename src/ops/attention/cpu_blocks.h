#pragma once

#include "ops/cpu_support.h"

// Products of blocks that lie in the caches, for kernels that make no matrix larger than a block.
namespace outsize {

// Columns of a block come in whole lines; blocks are padded to them.
inline constexpr std::int64_t kLine = 16;

constexpr std::int64_t whole_lines(std::int64_t columns) { return (columns + kLine - 1) / kLine * kLine; }

// to (rows × columns) = or += a (rows × inner) · b (inner × columns). Element (r, k) of a is a[r * row_step + k * inner_step]; b
// and `to` are row-major with these strides; columns are whole lines.
struct BlockProduct {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
  const float* a;
  std::int64_t row_step;
  std::int64_t inner_step;
  const float* b;
  std::int64_t b_stride;
  float* to;
  std::int64_t to_stride;
  bool add;
};

// R rows by one line: R · kLine sums stay in registers, in AVX2's sixteen too.
template <int R>
OUTSIZE_INLINE void multiply_rows(const BlockProduct& p, std::int64_t row, std::int64_t column) {
  const float* const a = p.a + row * p.row_step;
  const float* const b = p.b + column;
  float sum[R][kLine] = {};
  for (std::int64_t k = 0; k < p.inner; ++k)
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * p.row_step + k * p.inner_step];
#pragma omp simd
      for (std::int64_t c = 0; c < kLine; ++c) sum[r][c] += factor * b[k * p.b_stride + c];
    }
  for (int r = 0; r < R; ++r) {
    float* const to = p.to + (row + r) * p.to_stride + column;
    if (p.add)
      for (std::int64_t c = 0; c < kLine; ++c) to[c] += sum[r][c];
    else
      for (std::int64_t c = 0; c < kLine; ++c) to[c] = sum[r][c];
  }
}

OUTSIZE_CLONES inline void multiply_blocks(const BlockProduct& p) {
  constexpr std::int64_t kRows = 6;
  for (std::int64_t column = 0; column < p.columns; column += kLine) {
    std::int64_t row = 0;
    for (; row + kRows <= p.rows; row += kRows) multiply_rows<kRows>(p, row, column);
    for (; row + 2 <= p.rows; row += 2) multiply_rows<2>(p, row, column);
    for (; row < p.rows; ++row) multiply_rows<1>(p, row, column);
  }
}

}  // namespace outsize
