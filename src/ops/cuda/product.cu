#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/cuda/product.h"
#include "ops/cuda/support.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// The most elements of a matrix and products of a batch that one call has. Emulated, so few that small cases have several calls.
#if defined(__CUDACC__)
constexpr std::int64_t kMostElements = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMostProducts = 32768;
constexpr std::int64_t kStep = 256;  // extents that are cut are multiples of it, so that all parts are aligned as the whole is
// What a matrix has at least that is multiplied by aligned rows, and the multiply-adds of the product: about where the calls for
// its ends cost as much as is gained.
constexpr std::int64_t kLeastRows = 256;
constexpr std::int64_t kLeastColumns = 1024;
constexpr double kLeastWork = 1e10;
#else
constexpr std::int64_t kMostElements = 2000;
constexpr std::int64_t kMostProducts = 5;
constexpr std::int64_t kStep = 2;
constexpr std::int64_t kLeastRows = 4;
constexpr std::int64_t kLeastColumns = 8;
constexpr double kLeastWork = 0;
#endif
constexpr std::int64_t kAligned = 16 / sizeof(float);

// What is booked for a call, and where the inner extent is so much larger than the others that it is split among blocks, each with
// a result of its own.
constexpr std::int64_t kUsualWorkspace = std::int64_t{4} << 20;
constexpr std::int64_t kLargeWorkspace = std::int64_t{32} << 20;
constexpr std::int64_t kMuchLarger = 2;
constexpr std::int64_t kMostSplits = 256;

std::int64_t workspace_for(const ProductShape& shape) {
  const std::int64_t most = shape.inner >= kMuchLarger * std::max(shape.rows, shape.columns) ? kLargeWorkspace : kUsualWorkspace;
  const double results = static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
                         static_cast<double>(shape.batches[0].count) * kMostSplits * sizeof(float);
  return results < static_cast<double>(most) ? part_bytes(static_cast<std::int64_t>(results)) : most;
}

// What a product's matrices share.
enum class Axis { rows, inner, columns };

std::int64_t& extent(ProductShape& shape, Axis axis) {
  return axis == Axis::rows ? shape.rows : axis == Axis::inner ? shape.inner : shape.columns;
}

// A matrix of a product: where its layout is, along which axis stored rows follow each other, and along which they extend.
using LayoutOf = MatrixLayout ProductShape::*;
struct Stored {
  LayoutOf layout;
  Axis far, near;
};
std::array<Stored, 3> stored(const ProductShape& shape) {
  std::array<Stored, 3> matrices{{{&ProductShape::a, Axis::rows, Axis::inner},
                                  {&ProductShape::b, Axis::inner, Axis::columns},
                                  {&ProductShape::c, Axis::rows, Axis::columns}}};
  for (Stored& matrix : matrices)
    if ((shape.*matrix.layout).transposed) std::swap(matrix.far, matrix.near);
  return matrices;
}

void copy_numbers(float* to, const float* from, std::int64_t count, [[maybe_unused]] void* queue) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
#if defined(__CUDACC__)
  if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(queue));
      error != cudaSuccess)
    internal_error("{} bytes of the card cannot be copied: {}", bytes, cudaGetErrorString(error));
#else
  std::memcpy(to, from, bytes);
#endif
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

  if (!add_aligned(whole, tf32)) add(whole, {}, tf32);
}

bool Product::add_aligned(const ProductShape& whole, bool tf32) {
#if defined(__CUDACC__)
  if (!tf32) return false;  // kernels without tensor cores load what lies anywhere as fast
#endif
  const double work = static_cast<double>(whole.rows) * static_cast<double>(whole.inner) * static_cast<double>(whole.columns);
  if (whole.batches[0].count > 1 || work < kLeastWork) return false;
  const std::array<Stored, 3> matrices = stored(whole);
  const auto is_odd = [&](const Stored& matrix) { return (whole.*matrix.layout).stride % kAligned != 0; };
  if (std::ranges::count_if(matrices, is_odd) != 1) return false;
  const Stored odd = *std::ranges::find_if(matrices, is_odd);
  // Its rows and columns are chosen: in the other matrices they must be rows that are stored.
  for (const Stored& matrix : matrices)
    if (matrix.layout != odd.layout && (matrix.near == odd.far || matrix.near == odd.near)) return false;
  ProductShape extents = whole;
  const std::int64_t rows = extent(extents, odd.far), columns = extent(extents, odd.near);
  if (rows < kLeastRows || columns < kLeastColumns) return false;

  const std::int64_t stride = (whole.*odd.layout).stride, turns = kAligned / std::gcd(stride, kAligned);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const std::int64_t begin = (kAligned - turn * stride % kAligned) % kAligned;
    const std::int64_t end = begin + (columns - begin) / kAligned * kAligned;
    // What is aligned first, then the ends.
    for (const auto& [from, to] : {std::pair{begin, end}, std::pair{std::int64_t{0}, begin}, std::pair{end, columns}}) {
      if (from == to) continue;
      ProductShape shape = whole;
      Part part;
      const auto take = [&](Axis axis, std::int64_t first, std::int64_t count, std::int64_t step) {
        const std::array<std::int64_t*, 3> offsets{&part.a, &part.b, &part.c};
        for (std::size_t i = 0; i < matrices.size(); ++i) {
          MatrixLayout& layout = shape.*matrices[i].layout;
          if (matrices[i].far == axis) {
            *offsets[i] += first * layout.stride;
            layout.stride *= step;
          } else if (matrices[i].near == axis) {
            *offsets[i] += first;
          }
        }
        if (axis == Axis::columns) part.bias += first;
        extent(shape, axis) = count;
      };
      // Columns before rows, whose stride changes.
      take(odd.near, from, to - from, 1);
      take(odd.far, turn, ceil_divide(rows - turn, turns), turns);
      part.adds = (odd.far == Axis::inner && turn > 0) || (odd.near == Axis::inner && from != begin);
      shape.bias = whole.bias && !part.adds;
      part.aligns_bias = shape.bias && part.bias % kAligned != 0;
      add(shape, part, tf32);
    }
  }
  return true;
}

void Product::add(const ProductShape& whole, const Part& origin, bool tf32) {
  const std::int64_t rows = cut(whole.rows, {whole.c.stride, whole.a.transposed ? 0 : whole.a.stride});
  const std::int64_t columns = cut(whole.columns, {whole.b.transposed ? whole.b.stride : 0});
  const std::int64_t inner = cut(whole.inner, {whole.a.transposed ? whole.a.stride : 0, whole.b.transposed ? 0 : whole.b.stride});
  ProductShape shape = whole;
  for (std::int64_t n = 0; n < whole.batches[0].count; n += kMostProducts)
    for (std::int64_t r = 0; r < whole.rows; r += rows)
      for (std::int64_t c = 0; c < whole.columns; c += columns)
        for (std::int64_t k = 0; k < whole.inner; k += inner) {
          shape.batches[0].count = std::min(kMostProducts, whole.batches[0].count - n);
          shape.rows = std::min(rows, whole.rows - r);
          shape.columns = std::min(columns, whole.columns - c);
          shape.inner = std::min(inner, whole.inner - k);
          shape.bias = whole.bias && k == 0;
          const ProductBatch& batch = whole.batches[0];
          Part part = origin;
          part.a += n * batch.a + (whole.a.transposed ? k * whole.a.stride + r : r * whole.a.stride + k);
          part.b += n * batch.b + (whole.b.transposed ? c * whole.b.stride + k : k * whole.b.stride + c);
          part.c += n * batch.c + r * whole.c.stride + c;
          part.bias += c;
          part.adds = origin.adds || k > 0;
          part.aligns_bias = origin.aligns_bias && shape.bias;
          append(shape, part, tf32);
        }
}

void Product::append(const ProductShape& shape, Part part, bool tf32) {
  const auto found = std::ranges::find(shapes_, shape);
  part.single = static_cast<std::size_t>(found - shapes_.begin());
  if (found == shapes_.end()) {
    const std::int64_t workspace = workspace_for(shape);
    bias_at_ = std::max(bias_at_, part_bytes(workspace));
    shapes_.push_back(shape);
    singles_.emplace_back(shape, tf32, workspace);
  }
  if (part.aligns_bias) bias_bytes_ = std::max(bias_bytes_, part_bytes(shape.columns * static_cast<std::int64_t>(sizeof(float))));
  parts_.push_back(part);
}

std::string Product::name() const {
  std::string name;
  for (const Single& single : singles_)
    if (const std::string own = single.name(); !name.ends_with(own)) name += (name.empty() ? "" : "+") + own;
  return name;
}

void Product::run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const {
  for (std::int64_t i = 0; i < repeats_.count; ++i)
    for (const Part& part : parts_) {
      const float* bias = shapes_[part.single].bias ? operands.bias + part.bias : nullptr;
      if (part.aligns_bias) {
        float* const copy = reinterpret_cast<float*>(workspace + bias_at_);
        copy_numbers(copy, bias, shapes_[part.single].columns, queue);
        bias = copy;
      }
      singles_[part.single].run(
          {operands.a + i * repeats_.a + part.a, operands.b + i * repeats_.b + part.b, operands.c + i * repeats_.c + part.c, bias},
          add || part.adds, workspace, queue);
    }
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
