#pragma once

#include "ops/expect.h"

// Plain values as rows: everything but the last dimension counts rows, the last one is the row.
namespace outsize {

// Input i must be plain, of f32 or f64 and of at least that rank; `shape` says it in letters, "[..., I]".
inline void expect_rows(const OpSite& site, int i, int least_rank, std::string_view shape) {
  expect_float(site, i);
  if (site.in(i).format != Format::plain || site.in(i).shape.rank() < least_rank)
    user_error("input {} must be plain {}, found {}", input_name(site, i), shape, to_string(site.in(i)));
}

inline std::int64_t last_extent(const Dims& shape) { return shape[shape.rank() - 1]; }
inline Interval last_range(const Box& box) { return box[box.rank() - 1]; }

// The same leading dimensions with another last one.
inline Dims with_last(Dims shape, std::int64_t last) {
  shape[shape.rank() - 1] = last;
  return shape;
}
inline Box with_last(Box box, Interval last) {
  box.set(box.rank() - 1, last);
  return box;
}

// The number of rows: the product of all extents but the last.
inline std::int64_t rows_of(const Dims& shape) { return with_last(shape, 1).product(); }
inline std::int64_t rows_of(const Box& box) { return rows_of(box.shape()); }

}  // namespace outsize
