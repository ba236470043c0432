#include <algorithm>
#include <cstring>

#include "ops/cuda/product.h"
#include "ops/cuda/support.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// The most elements of a matrix and products of a batch that one call has. Emulated, so few that small cases have several calls.
#if defined(__CUDACC__)
constexpr std::int64_t kMostElements = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMostProducts = 32768;
constexpr std::int64_t kStep = 256;  // extents that are cut are multiples of it, so that all parts are aligned as the whole is
#else
constexpr std::int64_t kMostElements = 2000;
constexpr std::int64_t kMostProducts = 5;
constexpr std::int64_t kStep = 2;
#endif

// What is booked for a call, and where the inner extent is so large that it is split among blocks, each with a result of its own.
constexpr std::int64_t kUsualWorkspace = std::int64_t{4} << 20;
constexpr std::int64_t kLargeWorkspace = std::int64_t{32} << 20;
constexpr std::int64_t kMuchLarger = 8;
constexpr std::int64_t kMostSplits = 256;

std::int64_t workspace_for(const ProductShape& shape) {
  const std::int64_t most = shape.inner >= kMuchLarger * std::max(shape.rows, shape.columns) ? kLargeWorkspace : kUsualWorkspace;
  const double results = static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
                         static_cast<double>(shape.batches[0].count) * kMostSplits * sizeof(float);
  return results < static_cast<double>(most) ? part_bytes(static_cast<std::int64_t>(results)) : most;
}

bool same_single(const ProductShape& a, const ProductShape& b) {
  return a.rows == b.rows && a.inner == b.inner && a.columns == b.columns && a.batches[0].count == b.batches[0].count &&
         a.bias == b.bias;
}

// The stored rows of these strides that make at most kMostElements; all of them if they do.
std::int64_t cut(std::int64_t extent, std::initializer_list<std::int64_t> strides) {
  const std::int64_t most = kMostElements / std::max(std::max(strides), std::int64_t{1});
  if (extent <= most) return extent;
  return std::max(most / kStep * kStep, std::min(kStep, extent));
}

}  // namespace

Product::Product(const ProductShape& shape, bool tf32) {
  OUTSIZE_CHECK(shape.rows > 0 && shape.inner > 0 && shape.columns > 0 && !shape.c.transposed);
  ProductShape whole = shape;
  auto& [inner_batch, outer_batch] = whole.batches;
  // The library takes one batch: the larger one, or both where they are one.
  if (inner_batch.count < outer_batch.count) std::swap(inner_batch, outer_batch);
  if (outer_batch.a == inner_batch.count * inner_batch.a && outer_batch.b == inner_batch.count * inner_batch.b &&
      outer_batch.c == inner_batch.count * inner_batch.c) {
    inner_batch.count *= outer_batch.count;
    outer_batch = {};
  }
  repeats_ = outer_batch;
  outer_batch = {};

  const std::int64_t rows = cut(whole.rows, {whole.c.stride, whole.a.transposed ? 0 : whole.a.stride});
  const std::int64_t columns = cut(whole.columns, {whole.b.transposed ? whole.b.stride : 0});
  const std::int64_t inner = cut(whole.inner, {whole.a.transposed ? whole.a.stride : 0, whole.b.transposed ? 0 : whole.b.stride});
  ProductShape part = whole;
  for (std::int64_t n = 0; n < whole.batches[0].count; n += kMostProducts)
    for (std::int64_t r = 0; r < whole.rows; r += rows)
      for (std::int64_t c = 0; c < whole.columns; c += columns)
        for (std::int64_t k = 0; k < whole.inner; k += inner) {
          part.batches[0].count = std::min(kMostProducts, whole.batches[0].count - n);
          part.rows = std::min(rows, whole.rows - r);
          part.columns = std::min(columns, whole.columns - c);
          part.inner = std::min(inner, whole.inner - k);
          part.bias = whole.bias && k == 0;
          const ProductBatch& batch = whole.batches[0];
          append(part,
                 {n * batch.a + (whole.a.transposed ? k * whole.a.stride + r : r * whole.a.stride + k),
                  n * batch.b + (whole.b.transposed ? c * whole.b.stride + k : k * whole.b.stride + c),
                  n * batch.c + r * whole.c.stride + c, c, 0, k > 0},
                 tf32);
        }
}

void Product::append(const ProductShape& shape, Part part, bool tf32) {
  const auto found = std::ranges::find_if(shapes_, [&](const ProductShape& known) { return same_single(known, shape); });
  part.single = static_cast<std::size_t>(found - shapes_.begin());
  if (found == shapes_.end()) {
    const std::int64_t workspace = workspace_for(shape);
    workspace_bytes_ = std::max(workspace_bytes_, workspace);
    shapes_.push_back(shape);
    singles_.emplace_back(shape, tf32, workspace);
  }
  parts_.push_back(part);
}

void Product::run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const {
  for (std::int64_t i = 0; i < repeats_.count; ++i)
    for (const Part& part : parts_)
      singles_[part.single].run(
          {operands.a + i * repeats_.a + part.a, operands.b + i * repeats_.b + part.b, operands.c + i * repeats_.c + part.c,
           operands.bias == nullptr ? nullptr : operands.bias + part.bias},
          add || part.adds, workspace, queue);
}

#if !defined(__CUDACC__)

Product::Single::Single(const ProductShape& shape, bool, std::int64_t workspace_bytes)
    : shape_(shape), workspace_bytes_(workspace_bytes) {
  // What the library asks of its operands.
  const auto fits = [](const MatrixLayout& matrix, std::int64_t rows, std::int64_t columns) {
    return matrix.stride >= (matrix.transposed ? rows : columns);
  };
  OUTSIZE_CHECK(fits(shape.a, shape.rows, shape.inner) && fits(shape.b, shape.inner, shape.columns) &&
                fits(shape.c, shape.rows, shape.columns));
}

void Product::Single::run(const ProductOperands& operands, bool add, std::byte* workspace, void*) const {
  // The library may write it all, with what is a NaN to whoever reads it.
  std::memset(workspace, 0xFF, static_cast<std::size_t>(workspace_bytes_));
  const ProductShape& s = shape_;
  const ProductBatch& batch = s.batches[0];
  std::vector<double> sums(static_cast<std::size_t>(s.columns));
  for (std::int64_t n = 0; n < batch.count; ++n)
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* const a = operands.a + n * batch.a + (s.a.transposed ? r : r * s.a.stride);
      const std::int64_t step_a = s.a.transposed ? s.a.stride : 1;
      const float* const b = operands.b + n * batch.b;
      std::ranges::fill(sums, 0.0);
      if (s.b.transposed) {
        for (std::size_t c = 0; c < sums.size(); ++c)
          for (std::int64_t k = 0; k < s.inner; ++k)
            sums[c] += static_cast<double>(a[k * step_a]) * static_cast<double>(b[static_cast<std::int64_t>(c) * s.b.stride + k]);
      } else {
        for (std::int64_t k = 0; k < s.inner; ++k)
          for (std::size_t c = 0; c < sums.size(); ++c)
            sums[c] += static_cast<double>(a[k * step_a]) * static_cast<double>(b[k * s.b.stride + static_cast<std::int64_t>(c)]);
      }
      float* const to = operands.c + n * batch.c + r * s.c.stride;
      for (std::size_t c = 0; c < sums.size(); ++c) {
        double result = sums[c];
        if (s.bias) result += static_cast<double>(operands.bias[c]);
        if (add) result += static_cast<double>(to[c]);
        to[c] = static_cast<float>(result);
      }
    }
}

#endif

ProductShape dense_product(std::int64_t batch, std::int64_t rows, std::int64_t inner, std::int64_t columns, bool transpose_a,
                           bool transpose_b) {
  return {.rows = rows,
          .inner = inner,
          .columns = columns,
          .a = {transpose_a ? rows : inner, transpose_a},
          .b = {transpose_b ? inner : columns, transpose_b},
          .c = {columns, false},
          .batches = {{{batch, rows * inner, inner * columns, rows * columns}, {}}}};
}

}  // namespace outsize::OUTSIZE_PLACE
