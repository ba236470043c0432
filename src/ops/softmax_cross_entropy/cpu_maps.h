#pragma once

#include "ops/cpu_math.h"

namespace outsize {

// Softmax over the channels of a blocked map, a few positions at a time. All of them are shifted by their common maximum, which
// saves one horizontal reduction a position; where a position lies so far below it that its sum underflows, the caller must shift
// it by its own (`kLeastSum`).

inline constexpr std::int64_t kMostPositions = 256;
inline constexpr std::int64_t kMostBlock = 16;
inline constexpr float kLeastSum = 1e-20F;  // terms down to 1e-18 of such a sum are still normal numbers

// Some positions of one sample.
struct MapChunk {
  const float* logits;   // of the first position, first block
  std::int64_t plane;    // elements from block to block
  std::int64_t blocks;   // of channels
  std::int64_t count;    // positions, kMostPositions at most
  std::int64_t classes;  // channels that are real
  // Added to the logits of the last block, an element each: 0, and in the channels that pad it so little that e^x is nothing
  // beside the real ones'. Null where no channel does.
  const float* mask;
};

// How many positions to take at a time, so that their logits stay in the first cache; less than it holds, for blocks may lie a
// power of two apart and share its sets.
constexpr std::int64_t positions_of(std::int64_t padded_classes) {
  return std::clamp<std::int64_t>(1536 / padded_classes, 16, kMostPositions);
}

namespace map_softmax_detail {

// to[p] has the lanes of from[p] added up in pairs.
template <int width>
OUTSIZE_INLINE void halve(const float* __restrict from, float* __restrict to, std::int64_t count) {
  constexpr int half = width / 2;
  for (std::int64_t p = 0; p < count; ++p)
    for (int lane = 0; lane < half; ++lane) to[p * half + lane] = from[p * width + lane] + from[p * width + half + lane];
}

// sums[p] = Σ over the lanes of a[p]; a and b are scratch.
template <int block>
OUTSIZE_INLINE void fold(float* a, float* b, float* sums, std::int64_t count) {
  static_assert(block == 8 || block == 16);
  if constexpr (block == 16) {
    halve<16>(a, b, count);
    halve<8>(b, a, count);
    halve<4>(a, b, count);
    halve<2>(b, sums, count);
  } else {
    halve<8>(a, b, count);
    halve<4>(b, a, count);
    halve<2>(a, sums, count);
  }
}

template <bool masked>
OUTSIZE_INLINE float largest(const float* x, const float* mask, float most, std::int64_t count) {
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = masked ? x[i] + mask[i] : x[i];
    most = value > most ? value : most;
  }
  return most;
}

// The exponentials of one block; `lanes` has their sums over blocks so far.
template <bool masked, bool first, bool keep>
OUTSIZE_INLINE void add_block(const float* x, const float* mask, float most, float* __restrict e, float* __restrict lanes,
                              std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = lane::exp((masked ? x[i] + mask[i] : x[i]) - most);
    if constexpr (keep) e[i] = value;
    lanes[i] = first ? value : lanes[i] + value;
  }
}

}  // namespace map_softmax_detail

// sums[p] = Σ e^(x - most) over the channels of position p, and the common maximum `most` as the result. With `keep` the
// exponentials go to `e`, which is laid out as the logits.
template <int block, bool keep>
OUTSIZE_CLONES float map_exponentials(const MapChunk& chunk, float* __restrict e, float* __restrict sums) {
  using namespace map_softmax_detail;
  const std::int64_t count = chunk.count * block;
  float most = -3e38F;
  for (std::int64_t b = 0; b < chunk.blocks; ++b) {
    const float* const x = chunk.logits + b * chunk.plane;
    const bool masked = chunk.mask && b + 1 == chunk.blocks;
    most = masked ? largest<true>(x, chunk.mask, most, count) : largest<false>(x, nullptr, most, count);
  }
  alignas(64) float lanes[kMostPositions * block], scratch[kMostPositions * block / 2];
  for (std::int64_t b = 0; b < chunk.blocks; ++b) {
    const float* const x = chunk.logits + b * chunk.plane;
    float* const kept = keep ? e + b * chunk.plane : nullptr;
    const bool masked = chunk.mask && b + 1 == chunk.blocks;
    if (b == 0 && masked)
      add_block<true, true, keep>(x, chunk.mask, most, kept, lanes, count);
    else if (b == 0)
      add_block<false, true, keep>(x, nullptr, most, kept, lanes, count);
    else if (masked)
      add_block<true, false, keep>(x, chunk.mask, most, kept, lanes, count);
    else
      add_block<false, false, keep>(x, nullptr, most, kept, lanes, count);
  }
  fold<block>(lanes, scratch, sums, chunk.count);
  return most;
}

// e[p] = factors[p] · e[p] - shifts[p] in the real channels, 0 in those that pad the last block.
template <int block>
OUTSIZE_CLONES void scale_map(const MapChunk& chunk, const float* factors, const float* shifts, float* e) {
  for (std::int64_t b = 0; b < chunk.blocks; ++b) {
    float real[block];
    for (int lane = 0; lane < block; ++lane) real[lane] = b * block + lane < chunk.classes ? 1.0F : 0.0F;
    float* const row = e + b * chunk.plane;
    for (std::int64_t p = 0; p < chunk.count; ++p)
#pragma omp simd
      for (int lane = 0; lane < block; ++lane)
        row[p * block + lane] = (row[p * block + lane] * factors[p] - shifts[p]) * real[lane];
  }
}

}  // namespace outsize
