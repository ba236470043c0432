#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_sub() {
  return {
      {.name = "map",
       .graph = R"(
graph sub_map
input a f32[2, 11, 9, 7]
input b f32[2, 11, 9, 7]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "plain",
       .graph = R"(
graph sub_plain
input a f32[6, 37]
input b f32[6, 37]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "volume",
       .graph = R"(
graph sub_volume
input a f32[2, 9, 3, 4, 5]
input b f32[2, 9, 3, 4, 5]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "channels",
       .graph = R"(
graph sub_channels
input a f32[2, 11, 5, 3]
input b f32[11, 1, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "channels_first",
       .graph = R"(
graph sub_channels_first
input a f32[1, 5, 1, 1]
input b f32[2, 5, 3, 4]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "plain_channels",
       .graph = R"(
graph sub_plain_channels
input a f32[2, 16, 3, 5]
input b f32.plain[1, 16, 1, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "volume_channels",
       .graph = R"(
graph sub_volume_channels
input a f32[2, 9, 2, 3, 4]
input b f32.plain[9, 1, 1, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "number",
       .graph = R"(
graph sub_number
input a f32[2, 11, 5, 3]
input b f32[1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "squeezed",
       .graph = R"(
graph sub_squeezed
input a f32[3, 13, 4, 5]
input b f32[3, 13, 1, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "mask",
       .graph = R"(
graph sub_mask
input a f32[3, 13, 4, 5]
input b f32[3, 1, 4, 5]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "crossed_maps",
       .graph = R"(
graph sub_crossed_maps
input a f32[1, 10, 4, 1]
input b f32[3, 1, 4, 5]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "row",
       .graph = R"(
graph sub_row
input a f32[4, 5, 9]
input b f32[9]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "column",
       .graph = R"(
graph sub_column
input a f32[4, 5, 9]
input b f32[5, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "crossed",
       .graph = R"(
graph sub_crossed
input a f32[4, 1, 8]
input b f32[3, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "rank_six",
       .graph = R"(
graph sub_rank_six
input a f32[2, 3, 1, 2, 1, 3]
input b f32[2, 3, 2, 2, 4, 3]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b"},
      {.name = "bench_row",
       .graph = R"(
graph sub_bench_row
input a f32[8, 512, 768]
input b f32[768]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b",
       .bench = true},
      {.name = "bench_squeezed",
       .graph = R"(
graph sub_bench_squeezed
input a f32[8, 256, 56, 56]
input b f32[8, 256, 1, 1]
sub: y = sub(a, b)
output y
)",
       .torch = "a - b",
       .bench = true},
  };
}

}  // namespace outsize
