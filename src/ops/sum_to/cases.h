#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_sum_to() {
  return {
      {.name = "row",
       .graph = R"(
graph sum_to_row
input x f32[4, 5, 9]
sum_to: y = sum_to(x) shape=[9]
output y
)",
       .torch = "x.sum((0, 1))"},
      {.name = "column",
       .graph = R"(
graph sum_to_column
input x f32[4, 5, 9]
sum_to: y = sum_to(x) shape=[5, 1]
output y
)",
       .torch = "x.sum((0, 2)).reshape(5, 1)"},
      {.name = "number",
       .graph = R"(
graph sum_to_number
input x f32[6, 37]
sum_to: y = sum_to(x) shape=[1]
output y
)",
       .torch = "x.sum().reshape(1)"},
      {.name = "rows_kept",
       .graph = R"(
graph sum_to_rows_kept
input x f32[6, 3, 5]
sum_to: y = sum_to(x) shape=[6, 1, 1]
output y
)",
       .torch = "x.sum((1, 2), keepdim=True)"},
      {.name = "outer",
       .graph = R"(
graph sum_to_outer
input x f32[3, 700]
sum_to: y = sum_to(x) shape=[1, 700]
output y
)",
       .torch = "x.sum(0, keepdim=True)"},
      {.name = "alternating",
       .graph = R"(
graph sum_to_alternating
input x f32[3, 4, 2, 5, 3, 2]
sum_to: y = sum_to(x) shape=[1, 4, 1, 5, 1, 2]
output y
)",
       .torch = "x.sum((0, 2, 4), keepdim=True)"},
      {.name = "nothing",
       .graph = R"(
graph sum_to_nothing
input x f32[3, 4]
sum_to: y = sum_to(x) shape=[3, 4]
output y
)",
       .torch = "x"},
      {.name = "channels",
       .graph = R"(
graph sum_to_channels
input x f32[2, 11, 5, 3]
sum_to: y = sum_to(x) shape=[11, 1, 1]
output y
)",
       .torch = "x.sum((0, 2, 3)).reshape(11, 1, 1)"},
      {.name = "volume_channels",
       .graph = R"(
graph sum_to_volume_channels
input x f32[2, 17, 2, 3, 4]
sum_to: y = sum_to(x) shape=[1, 17, 1, 1, 1]
output y
)",
       .torch = "x.sum((0, 2, 3, 4)).reshape(1, 17, 1, 1, 1)"},
      {.name = "map_number",
       .graph = R"(
graph sum_to_map_number
input x f32[2, 11, 5, 3]
sum_to: y = sum_to(x) shape=[1]
output y
)",
       .torch = "x.sum().reshape(1)"},
      {.name = "squeezed",
       .graph = R"(
graph sum_to_squeezed
input x f32[3, 13, 4, 5]
sum_to: y = sum_to(x) shape=[3, 13, 1, 1] format=map
output y
)",
       .torch = "x.sum((2, 3), keepdim=True)"},
      {.name = "mask",
       .graph = R"(
graph sum_to_mask
input x f32[3, 13, 4, 5]
sum_to: y = sum_to(x) shape=[3, 1, 4, 5] format=map
output y
)",
       .torch = "x.sum(1, keepdim=True)"},
      {.name = "samples",
       .graph = R"(
graph sum_to_samples
input x f32[3, 13, 4, 5]
sum_to: y = sum_to(x) shape=[1, 13, 4, 5] format=map
output y
)",
       .torch = "x.sum(0, keepdim=True)"},
      {.name = "rows_of_map",
       .graph = R"(
graph sum_to_rows_of_map
input x f32[3, 13, 4, 5]
sum_to: y = sum_to(x) shape=[3, 1, 4, 1] format=map
output y
)",
       .torch = "x.sum((1, 3), keepdim=True)"},
      {.name = "large",
       .graph = R"(
graph sum_to_large
input x f32[2, 24, 67, 61]
sum_to: y = sum_to(x) shape=[24, 1, 1]
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3)).reshape(24, 1, 1)"},
      {.name = "large_plain",
       .graph = R"(
graph sum_to_large_plain
input x f32[300, 1100]
sum_to: y = sum_to(x) shape=[1100]
output y
)",
       .differentiate = false,
       .torch = "x.sum(0)"},
      {.name = "long_alternating",
       .graph = R"(
graph sum_to_long_alternating
input x f32.plain[40, 3, 30, 4]
sum_to: y = sum_to(x) shape=[1, 3, 1, 4]
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2), keepdim=True)"},
      {.name = "long_rows",
       .graph = R"(
graph sum_to_long_rows
input x f32[2, 40000]
sum_to: y = sum_to(x) shape=[2, 1]
output y
)",
       .differentiate = false,
       .torch = "x.sum(1, keepdim=True)"},
      {.name = "long_odd_rows",
       .graph = R"(
graph sum_to_long_odd_rows
input x f32[3, 9001]
sum_to: y = sum_to(x) shape=[3, 1]
output y
)",
       .differentiate = false,
       .torch = "x.sum(1, keepdim=True)"},
      {.name = "many_rows",
       .graph = R"(
graph sum_to_many_rows
input x f32[700, 20]
sum_to: y = sum_to(x) shape=[700, 1]
output y
)",
       .differentiate = false,
       .torch = "x.sum(1, keepdim=True)"},
      {.name = "many_columns",
       .graph = R"(
graph sum_to_many_columns
input x f32[3, 2004]
sum_to: y = sum_to(x) shape=[2004]
output y
)",
       .differentiate = false,
       .torch = "x.sum(0)"},
      {.name = "three_channels",
       .graph = R"(
graph sum_to_three_channels
input x f32[2, 3, 31, 37]
sum_to: y = sum_to(x) shape=[2, 3, 1, 1] format=map
output y
)",
       .differentiate = false,
       .torch = "x.sum((2, 3), keepdim=True)"},
      {.name = "one_channel",
       .graph = R"(
graph sum_to_one_channel
input x f32[4, 1, 31, 37]
sum_to: y = sum_to(x) shape=[1, 1, 1]
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3)).reshape(1, 1, 1)"},
      {.name = "planes",
       .graph = R"(
graph sum_to_planes
input x f32[6, 5, 40, 33]
sum_to: y = sum_to(x) shape=[6, 1, 40, 1] format=map
output y
)",
       .differentiate = false,
       .torch = "x.sum((1, 3), keepdim=True)"},
      {.name = "bench_row",
       .graph = R"(
graph sum_to_bench_row
input x f32[8, 512, 768]
sum_to: y = sum_to(x) shape=[768]
output y
)",
       .torch = "x.sum((0, 1))",
       .bench = true},
      {.name = "bench_positions",
       .graph = R"(
graph sum_to_bench_positions
input x f32[32, 512, 768]
sum_to: y = sum_to(x) shape=[512, 768]
output y
)",
       .torch = "x.sum(0)",
       .bench = true},
      {.name = "bench_channels",
       .graph = R"(
graph sum_to_bench_channels
input x f32[8, 256, 56, 56]
sum_to: y = sum_to(x) shape=[256, 1, 1]
output y
)",
       .torch = "x.sum((0, 2, 3)).reshape(256, 1, 1)",
       .bench = true},
      {.name = "bench_squeezed",
       .graph = R"(
graph sum_to_bench_squeezed
input x f32[8, 256, 56, 56]
sum_to: y = sum_to(x) shape=[8, 256, 1, 1] format=map
output y
)",
       .torch = "x.sum((2, 3), keepdim=True)",
       .bench = true},
  };
}

}  // namespace outsize
