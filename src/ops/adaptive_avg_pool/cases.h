#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_adaptive_avg_pool() {
  return {
      {"global", R"(
graph adaptive_avg_pool_global
input x f32[3, 5, 4, 5]
pool: y = adaptive_avg_pool(x)
output y
)"},
      {"global_blocks", R"(
graph adaptive_avg_pool_global_blocks
input x f32[2, 16, 3, 3]
pool: y = adaptive_avg_pool(x)
output y
)"},
      // Neither extent divides: neighbouring windows share a row or a column.
      {"two_by_three", R"(
graph adaptive_avg_pool_two_by_three
input x f32[2, 3, 5, 7]
pool: y = adaptive_avg_pool(x) output=[2, 3]
output y
)"},
      {"identity", R"(
graph adaptive_avg_pool_identity
input x f32[1, 3, 4, 5]
pool: y = adaptive_avg_pool(x) output=[4, 5]
output y
)"},
      // More windows than elements.
      {"enlarged", R"(
graph adaptive_avg_pool_enlarged
input x f32[1, 2, 3, 4]
pool: y = adaptive_avg_pool(x) output=[5, 7]
output y
)"},
      {.name = "large",
       .graph = R"(
graph adaptive_avg_pool_large
input x f32[2, 32, 23, 19]
pool: y = adaptive_avg_pool(x) output=[7, 7]
output y
)",
       .differentiate = false},
  };
}

}  // namespace outsize
