#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "ops/cpu_support.h"

namespace outsize {

// A batch of row-major matrices as an operand: `rows` × `columns` as the product sees them; `transposed` where memory holds
// columns × rows.
struct Operand {
  std::int64_t rows;
  std::int64_t columns;
  bool transposed = false;
};

// `batch` products a · b of dense matrices, one after the other in memory, by the library. With `bias` a number a column is added.
// The arguments are, in order: a, b, the result, and the bias. `what` names the call in errors.
inline DnnlCall matrix_product(std::int64_t batch, const Operand& a, const Operand& b, bool bias, const std::string& what) {
  using dnnl::memory;
  // A batch of one is a matrix: the library has better kernels for those.
  const auto describe = [&](const Operand& matrix) -> memory::desc {
    const bool t = matrix.transposed;
    if (batch == 1) {
      const memory::dims dims{matrix.rows, matrix.columns};
      return {dims, memory::data_type::f32, t ? memory::format_tag::ba : memory::format_tag::ab};
    }
    const memory::dims dims{batch, matrix.rows, matrix.columns};
    return {dims, memory::data_type::f32, t ? memory::format_tag::acb : memory::format_tag::abc};
  };
  dnnl::engine engine;
  engine.reset(cpu_engine(), true);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc result = describe({a.rows, b.columns});
  const memory::dims bias_dims = batch == 1 ? memory::dims{1, b.columns} : memory::dims{1, 1, b.columns};
  const memory::desc bias_desc(bias_dims, memory::data_type::f32, batch == 1 ? memory::format_tag::ab : memory::format_tag::abc);
  const dnnl::matmul::desc desc =
      bias ? dnnl::matmul::desc(describe(a), describe(b), bias_desc, result) : dnnl::matmul::desc(describe(a), describe(b), result);
  const dnnl::matmul::primitive_desc description(desc, attr, engine);
  static constexpr std::array kArguments{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
  return {description.get(), std::span(kArguments).first(bias ? 4 : 3), what};
}

}  // namespace outsize
