#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/opdef.h"

namespace outsize {

namespace combine_detail {

template <class T>
void add_into(std::byte* accumulator, const std::byte* partial, std::int64_t elements) {
  T* const total = reinterpret_cast<T*>(accumulator);
  const T* const part = reinterpret_cast<const T*>(partial);
  for (std::int64_t i = 0; i < elements; ++i) total[i] += part[i];
}

// Chan, Golub and LeVeque (1979): the mean and squared deviations M2 of a union from those of its parts.
inline void merge_welford(double* total, const double* part, std::int64_t channels) {
  double* const count = total;
  double* const mean = total + channels;
  double* const m2 = total + 2 * channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double part_count = part[c];
    if (part_count == 0) continue;
    const double both = count[c] + part_count;
    const double delta = part[channels + c] - mean[c];
    mean[c] += delta * (part_count / both);
    m2[c] += part[2 * channels + c] + delta * delta * (count[c] * part_count / both);
    count[c] = both;
  }
}

}  // namespace combine_detail

// Combines one partial result of an op into the accumulator of the same box. Both are dense pieces of `elements` stored elements
// (padding included) that do not overlap; zeroed memory is the neutral accumulator. sum: f32 or f64. welford: an f64 [3, C] with
// rows count, mean, M2, so `elements` = 3·C. Throws InternalError for Combine::none and other types.
inline void combine_into(Combine combine, DType dtype, std::byte* accumulator, const std::byte* partial, std::int64_t elements) {
  if (combine == Combine::sum && dtype == DType::f32)
    combine_detail::add_into<float>(accumulator, partial, elements);
  else if (combine == Combine::sum && dtype == DType::f64)
    combine_detail::add_into<double>(accumulator, partial, elements);
  else if (combine == Combine::welford && dtype == DType::f64 && elements % 3 == 0)
    combine_detail::merge_welford(reinterpret_cast<double*>(accumulator), reinterpret_cast<const double*>(partial), elements / 3);
  else
    internal_error("no way to combine {} elements of {} by rule {}", elements, name_of(dtype), static_cast<int>(combine));
}

}  // namespace outsize
