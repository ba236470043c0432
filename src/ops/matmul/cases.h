#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_matmul() {
  return {
      {"two_dims", R"(
graph matmul_two_dims
input a f32[5, 7]
input b f32[7, 4]
mul: y = matmul(a, b)
output y
)",
       2, true, "a @ b"},
      {"transpose_b", R"(
graph matmul_transpose_b
input a f32.plain[4, 3, 5, 6]
input b f32.plain[4, 3, 9, 6]
mul: y = matmul(a, b) transpose_b=1
output y
)",
       2, true, "a @ b.transpose(-1, -2)"},
      {"transpose_a", R"(
graph matmul_transpose_a
input a f32[3, 8, 5]
input b f32[3, 8, 17]
mul: y = matmul(a, b) transpose_a=1
output y
)",
       2, true, "a.transpose(-1, -2) @ b"},
      {"transpose_both", R"(
graph matmul_transpose_both
input a f32[2, 6, 1]
input b f32[2, 3, 6]
mul: y = matmul(a, b) transpose_a=1 transpose_b=1
output y
)",
       2, true, "a.transpose(-1, -2) @ b.transpose(-1, -2)"},
      {"flat_transpose_a", R"(
graph matmul_flat_transpose_a
input a f32[7, 5]
input b f32[7, 6]
mul: y = matmul(a, b) transpose_a=1
output y
)",
       2, true, "a.t() @ b"},
      {.name = "scores",
       .graph = R"(
graph matmul_scores
input a f32.plain[4, 12, 128, 64]
input b f32.plain[4, 12, 128, 64]
mul: y = matmul(a, b) transpose_b=1
output y
)",
       .torch = "a @ b.transpose(-1, -2)",
       .bench = true},
  };
}

}  // namespace outsize
