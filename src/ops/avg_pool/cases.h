#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_avg_pool() {
  return {
      {.name = "two",
       .graph = R"(
graph avg_pool_two
input x f32[2, 3, 6, 4]
pool: y = avg_pool(x)
output y
)",
       .torch = "F.avg_pool2d(x, 2)"},
      {.name = "padded",
       .graph = R"(
graph avg_pool_padded
input x f32[1, 11, 7, 6]
pool: y = avg_pool(x) kernel=[3, 3] stride=[1, 1] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.avg_pool2d(x, 3, 1, 1)"},
      {.name = "padded_uncounted",
       .graph = R"(
graph avg_pool_padded_uncounted
input x f32[2, 5, 7, 6]
pool: y = avg_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1] count_include_pad=0
output y
)",
       .torch = "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)"},
      {.name = "asymmetric", .graph = R"(
graph avg_pool_asymmetric
input x f32[3, 2, 6, 7]
pool: y = avg_pool(x) kernel=[3, 2] stride=[1, 2] padding=[1, 0, 0, 1] count_include_pad=0
output y
)"},
      // Some inputs are in no window.
      {.name = "gaps",
       .graph = R"(
graph avg_pool_gaps
input x f32[1, 3, 8, 9]
pool: y = avg_pool(x) kernel=[2, 2] stride=[3, 3]
output y
)",
       .torch = "F.avg_pool2d(x, 2, 3)"},
      // Windows wider than what a kernel blends at once.
      {.name = "wide",
       .graph = R"(
graph avg_pool_wide
input x f32[1, 2, 3, 300]
pool: y = avg_pool(x) kernel=[2, 150] stride=[1, 50]
output y
)",
       .differentiate = false,
       .torch = "F.avg_pool2d(x, (2, 150), (1, 50))"},
      // Windows that are all rows or all columns, of vectors of channels; and an image's.
      {.name = "tall",
       .graph = R"(
graph avg_pool_tall
input x f32[2, 4, 140, 3]
pool: y = avg_pool(x) kernel=[135, 1] stride=[2, 1]
output y
)",
       .differentiate = false,
       .torch = "F.avg_pool2d(x, (135, 1), (2, 1))"},
      {.name = "fours",
       .graph = R"(
graph avg_pool_fours
input x f32[2, 12, 9, 7]
pool: y = avg_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.avg_pool2d(x, 3, 2, 1)"},
      {.name = "many_lines",
       .graph = R"(
graph avg_pool_many_lines
input x f32[2, 3, 70, 45]
pool: y = avg_pool(x) kernel=[3, 3] stride=[1, 1]
output y
)",
       .differentiate = false,
       .torch = "F.avg_pool2d(x, 3, 1)"},
      {.name = "volume",
       .graph = R"(
graph avg_pool_volume
input x f32[2, 3, 4, 5, 6]
pool: y = avg_pool(x) kernel=[2, 3, 2] stride=[2, 1, 2] padding=[0, 1, 0, 0, 1, 0]
output y
)",
       .torch = "F.avg_pool3d(x, (2, 3, 2), (2, 1, 2), (0, 1, 0))"},
      {.name = "volume_default",
       .graph = R"(
graph avg_pool_volume_default
input x f32[1, 9, 4, 3, 5]
pool: y = avg_pool(x)
output y
)",
       .torch = "F.avg_pool3d(x, 2)"},
      {.name = "volume_uncounted",
       .graph = R"(
graph avg_pool_volume_uncounted
input x f32[1, 5, 3, 4, 3]
pool: y = avg_pool(x) kernel=[3, 3, 3] stride=[1, 1, 1] padding=[1, 1, 1, 1, 1, 1] count_include_pad=0
output y
)",
       .torch = "F.avg_pool3d(x, 3, 1, 1, count_include_pad=False)"},
      {.name = "bench",
       .graph = R"(
graph avg_pool_bench
input x f32[8, 192, 35, 35]
pool: y = avg_pool(x) kernel=[3, 3] stride=[1, 1] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.avg_pool2d(x, 3, 1, 1)",
       .bench = true},
  };
}

}  // namespace outsize
