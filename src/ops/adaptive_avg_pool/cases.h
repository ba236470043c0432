#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_adaptive_avg_pool() {
  return {
      {.name = "global",
       .graph = R"(
graph adaptive_avg_pool_global
input x f32[3, 5, 4, 5]
pool: y = adaptive_avg_pool(x)
output y
)",
       .torch = "F.adaptive_avg_pool2d(x, 1)"},
      {.name = "global_blocks",
       .graph = R"(
graph adaptive_avg_pool_global_blocks
input x f32[2, 16, 3, 3]
pool: y = adaptive_avg_pool(x)
output y
)",
       .torch = "F.adaptive_avg_pool2d(x, 1)"},
      // Neither extent divides: neighbouring windows share a row or a column.
      {.name = "two_by_three",
       .graph = R"(
graph adaptive_avg_pool_two_by_three
input x f32[2, 3, 5, 7]
pool: y = adaptive_avg_pool(x) output=[2, 3]
output y
)",
       .torch = "F.adaptive_avg_pool2d(x, (2, 3))"},
      {.name = "identity",
       .graph = R"(
graph adaptive_avg_pool_identity
input x f32[1, 3, 4, 5]
pool: y = adaptive_avg_pool(x) output=[4, 5]
output y
)",
       .torch = "x"},
      // More windows than elements.
      {.name = "enlarged",
       .graph = R"(
graph adaptive_avg_pool_enlarged
input x f32[1, 2, 3, 4]
pool: y = adaptive_avg_pool(x) output=[5, 7]
output y
)",
       .torch = "F.adaptive_avg_pool2d(x, (5, 7))"},
      {.name = "large",
       .graph = R"(
graph adaptive_avg_pool_large
input x f32[2, 32, 23, 19]
pool: y = adaptive_avg_pool(x) output=[7, 7]
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool2d(x, 7)"},
      // Beyond what a kernel sums at once, in rows and in columns.
      {.name = "long",
       .graph = R"(
graph adaptive_avg_pool_long
input x f32[1, 3, 150, 140]
pool: y = adaptive_avg_pool(x)
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool2d(x, 1)"},
      // As long, of vectors of channels.
      {.name = "long_fours",
       .graph = R"(
graph adaptive_avg_pool_long_fours
input x f32[2, 8, 40, 33]
pool: y = adaptive_avg_pool(x)
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool2d(x, 1)"},
      // Windows of more elements than a thread adds up, of few and of many channels.
      {.name = "wide",
       .graph = R"(
graph adaptive_avg_pool_wide
input x f32[2, 8, 30, 26]
pool: y = adaptive_avg_pool(x) output=[2, 2]
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool2d(x, 2)"},
      {.name = "wide_image",
       .graph = R"(
graph adaptive_avg_pool_wide_image
input x f32[2, 3, 25, 31]
pool: y = adaptive_avg_pool(x) output=[2, 3]
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool2d(x, (2, 3))"},
      {.name = "wide_many",
       .graph = R"(
graph adaptive_avg_pool_wide_many
input x f32[1, 136, 12, 13]
pool: y = adaptive_avg_pool(x)
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool2d(x, 1)"},
      {.name = "volume_wide",
       .graph = R"(
graph adaptive_avg_pool_volume_wide
input x f32[1, 4, 9, 7, 13]
pool: y = adaptive_avg_pool(x) output=[2, 1, 2]
output y
)",
       .differentiate = false,
       .torch = "F.adaptive_avg_pool3d(x, (2, 1, 2))"},
      {.name = "volume",
       .graph = R"(
graph adaptive_avg_pool_volume
input x f32[2, 5, 3, 5, 4]
pool: y = adaptive_avg_pool(x) output=[2, 3, 2]
output y
)",
       .torch = "F.adaptive_avg_pool3d(x, (2, 3, 2))"},
      {.name = "volume_global",
       .graph = R"(
graph adaptive_avg_pool_volume_global
input x f32[2, 11, 3, 4, 2]
pool: y = adaptive_avg_pool(x)
output y
)",
       .torch = "F.adaptive_avg_pool3d(x, 1)"},
      {.name = "bench",
       .graph = R"(
graph adaptive_avg_pool_bench
input x f32[8, 2048, 7, 7]
pool: y = adaptive_avg_pool(x)
output y
)",
       .torch = "F.adaptive_avg_pool2d(x, 1)",
       .bench = true},
      {.name = "bench_volume",
       .graph = R"(
graph adaptive_avg_pool_bench_volume
input x f32[1, 64, 64, 64, 64]
pool: y = adaptive_avg_pool(x)
output y
)",
       .torch = "F.adaptive_avg_pool3d(x, 1)",
       .bench = true},
  };
}

}  // namespace outsize
