#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_add() {
  return {
      {.name = "map",
       .graph = R"(
graph add_map
input a f32[2, 11, 9, 7]
input b f32[2, 11, 9, 7]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "plain",
       .graph = R"(
graph add_plain
input a f32[6, 37]
input b f32[6, 37]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      // Both gradients reach x, so that autodiff sums them with an add of its own.
      {.name = "shared",
       .graph = R"(
graph add_shared
input x f32[2, 5, 6, 7]
relu: z = relu(x)
add: y = add(z, x)
output y
)",
       .torch = "F.relu(x) + x"},
      {.name = "volume",
       .graph = R"(
graph add_volume
input a f32[2, 9, 3, 4, 5]
input b f32[2, 9, 3, 4, 5]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "channels",
       .graph = R"(
graph add_channels
input a f32[2, 11, 5, 3]
input b f32[11, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "channels_first",
       .graph = R"(
graph add_channels_first
input a f32[1, 5, 1, 1]
input b f32[2, 5, 3, 4]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "plain_channels",
       .graph = R"(
graph add_plain_channels
input a f32[2, 16, 3, 5]
input b f32.plain[1, 16, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "volume_channels",
       .graph = R"(
graph add_volume_channels
input a f32[2, 9, 2, 3, 4]
input b f32.plain[9, 1, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "number",
       .graph = R"(
graph add_number
input a f32[2, 11, 5, 3]
input b f32[1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "squeezed",
       .graph = R"(
graph add_squeezed
input a f32[3, 13, 4, 5]
input b f32[3, 13, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "mask",
       .graph = R"(
graph add_mask
input a f32[3, 13, 4, 5]
input b f32[3, 1, 4, 5]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "crossed_maps",
       .graph = R"(
graph add_crossed_maps
input a f32[1, 10, 4, 1]
input b f32[3, 1, 4, 5]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "row",
       .graph = R"(
graph add_row
input a f32[4, 5, 9]
input b f32[9]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "column",
       .graph = R"(
graph add_column
input a f32[4, 5, 9]
input b f32[5, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "crossed",
       .graph = R"(
graph add_crossed
input a f32[4, 1, 8]
input b f32[3, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "rank_six",
       .graph = R"(
graph add_rank_six
input a f32[2, 3, 1, 2, 1, 3]
input b f32[2, 3, 2, 2, 4, 3]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "three_channels",
       .graph = R"(
graph add_three_channels
input a f32[3, 3, 7, 5]
input b f32[3, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "one_channel",
       .graph = R"(
graph add_one_channel
input a f32[2, 1, 9, 7]
input b f32[1, 1, 9, 7]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "many_channels",
       .graph = R"(
graph add_many_channels
input a f32[2, 24, 9, 7]
input b f32[24, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "mask_of_many_channels",
       .graph = R"(
graph add_mask_of_many_channels
input a f32[2, 12, 9, 7]
input b f32[2, 1, 9, 7]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "column_of_long_rows",
       .graph = R"(
graph add_column_of_long_rows
input a f32[3, 5, 64]
input b f32[5, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "crossed_rows",
       .graph = R"(
graph add_crossed_rows
input a f32[31, 1, 20]
input b f32[7, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b"},
      {.name = "bench_row",
       .graph = R"(
graph add_bench_row
input a f32[8, 512, 768]
input b f32[768]
add: y = add(a, b)
output y
)",
       .torch = "a + b",
       .bench = true},
      {.name = "bench_squeezed",
       .graph = R"(
graph add_bench_squeezed
input a f32[8, 256, 56, 56]
input b f32[8, 256, 1, 1]
add: y = add(a, b)
output y
)",
       .torch = "a + b",
       .bench = true},
      {.name = "bench_map",
       .graph = R"(
graph add_bench_map
input a f32[8, 256, 56, 56]
input b f32[8, 256, 56, 56]
add: y = add(a, b)
output y
)",
       .torch = "a + b",
       .bench = true},
  };
}

}  // namespace outsize
