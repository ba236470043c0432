#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_clip() {
  return {
      {"two", R"(
graph clip_two
input a f32[7, 33]
input b f32[2, 11, 5, 3]
square_a: sum_a = square_sum(a)
square_b: sum_b = square_sum(b)
factor: factor = clip_factor(sum_a, sum_b) max_norm=2.5
output factor
)",
       2, false, "2.5 / (torch.linalg.vector_norm(torch.cat([a.flatten(), b.flatten()])) + 1e-6).reshape(1)"},
      {"short_enough", R"(
graph clip_short_enough
input a f32[5]
square: sum = square_sum(a)
factor: factor = clip_factor(sum) max_norm=100.0
output factor
)",
       2, false, "torch.ones_like(a[:1])"},
      {"volume", R"(
graph clip_volume
input a f32[2, 3, 4, 5, 6]
square: sum = square_sum(a)
output sum
)",
       2, false, "a.square().sum().reshape(1)"},
      {"bench", R"(
graph clip_bench
input a f32[4096, 4096]
square: sum = square_sum(a)
output sum
)",
       2, false, "torch.linalg.vector_norm(a).square().reshape(1)", true},
  };
}

}  // namespace outsize
