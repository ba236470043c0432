#pragma once

#include <cmath>
#include <limits>

#include "ops/cpu_math.h"

namespace outsize {

// Softmax over rows that lie dense in memory, however long: a row is read from memory once, piece by piece.

// Pieces stay in the first cache between a look for the maximum and the exponentials; there are few enough to remember each one's
// maximum on the stack.
inline constexpr std::int64_t kMostPieces = 64;
constexpr std::int64_t piece_of(std::int64_t classes) {
  return std::max<std::int64_t>(1024, (classes + kMostPieces - 1) / kMostPieces);
}

OUTSIZE_CLONES inline float largest_of(const float* x, std::int64_t count) {
  float most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

// Runs are short so that f32 sums lose nothing worth naming; their sums are taken in f64.
inline constexpr std::int64_t kRun = 256;

OUTSIZE_CLONES inline double sum_of(const float* x, std::int64_t count) {
  double total = 0;
  for (std::int64_t from = 0; from < count; from += kRun) {
    const std::int64_t to = std::min(count, from + kRun);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = from; i < to; ++i) sum += x[i];
    total += static_cast<double>(sum);
  }
  return total;
}

// Σ e^(x - most).
OUTSIZE_CLONES inline double sum_of_exponentials(const float* x, float most, std::int64_t count) {
  double total = 0;
  for (std::int64_t from = 0; from < count; from += kRun) {
    const std::int64_t to = std::min(count, from + kRun);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = from; i < to; ++i) sum += lane::exp(x[i] - most);
    total += static_cast<double>(sum);
  }
  return total;
}

// The same, and keeps the exponentials.
OUTSIZE_CLONES inline double keep_exponentials(const float* x, float most, float* e, std::int64_t count) {
  double total = 0;
  for (std::int64_t from = 0; from < count; from += kRun) {
    const std::int64_t to = std::min(count, from + kRun);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = from; i < to; ++i) {
      const float value = lane::exp(x[i] - most);
      e[i] = value;
      sum += value;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

OUTSIZE_CLONES inline void scale_and_shift(float* x, float factor, float shift, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] * factor - shift;
}

// Σ e^x over parts, as a sum relative to the largest x seen.
struct ExponentialSum {
  float most = -std::numeric_limits<float>::infinity();
  double sum = 0;

  void add(float part_most, double part_sum) {
    if (part_most > most) {
      sum = sum * std::exp(static_cast<double>(most) - static_cast<double>(part_most)) + part_sum;
      most = part_most;
    } else {
      sum += part_sum * std::exp(static_cast<double>(part_most) - static_cast<double>(most));
    }
  }
  double log() const { return static_cast<double>(most) + std::log(sum); }
};

}  // namespace outsize
