#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_permute() {
  return {
      {.name = "channels_last",
       .graph = R"(
graph permute_channels_last
input x f32[2, 11, 4, 5]
permute: y = permute(x) order=[0, 2, 3, 1]
output y
)",
       .torch = "x.permute(0, 2, 3, 1)"},
      {.name = "channels_last_blocks",
       .graph = R"(
graph permute_channels_last_blocks
input x f32[2, 16, 4, 5]
permute: y = permute(x) order=[0, 2, 3, 1]
output y
)",
       .torch = "x.permute(0, 2, 3, 1)"},
      {.name = "channels_first",
       .graph = R"(
graph permute_channels_first
input x f32.plain[2, 4, 5, 11]
permute: y = permute(x) order=[0, 3, 1, 2] format=map
output y
)",
       .torch = "x.permute(0, 3, 1, 2)"},
      {.name = "to_map",
       .graph = R"(
graph permute_to_map
input x f32.plain[2, 19, 4, 5]
permute: y = permute(x) order=[0, 1, 2, 3] format=map
output y
)",
       .torch = "x.permute(0, 1, 2, 3)"},
      {.name = "to_plain",
       .graph = R"(
graph permute_to_plain
input x f32[2, 19, 4, 5]
permute: y = permute(x) order=[0, 1, 2, 3]
output y
)",
       .torch = "x.permute(0, 1, 2, 3)"},
      {.name = "turned_map",
       .graph = R"(
graph permute_turned_map
input x f32[2, 19, 4, 5]
permute: y = permute(x) order=[0, 1, 3, 2] format=map
output y
)",
       .torch = "x.permute(0, 1, 3, 2)"},
      {.name = "swapped_channels",
       .graph = R"(
graph permute_swapped_channels
input x f32[2, 19, 11, 5]
permute: y = permute(x) order=[0, 2, 1, 3] format=map
output y
)",
       .torch = "x.permute(0, 2, 1, 3)"},
      {.name = "channels_outside",
       .graph = R"(
graph permute_channels_outside
input x f32[3, 11, 4, 5]
permute: y = permute(x) order=[1, 0, 3, 2]
output y
)",
       .torch = "x.permute(1, 0, 3, 2)"},
      {.name = "channels_from_samples",
       .graph = R"(
graph permute_channels_from_samples
input x f32[13, 11, 2, 3]
permute: y = permute(x) order=[1, 0, 2, 3] format=map
output y
)",
       .torch = "x.permute(1, 0, 2, 3)"},
      // Few channels of many positions.
      {.name = "image_to_plain",
       .graph = R"(
graph permute_image_to_plain
input x f32[2, 3, 25, 31]
permute: y = permute(x) order=[0, 1, 2, 3]
output y
)",
       .differentiate = false,
       .torch = "x.permute(0, 1, 2, 3)"},
      {.name = "many_channels_to_plain",
       .graph = R"(
graph permute_many_channels_to_plain
input x f32[2, 70, 3, 2]
permute: y = permute(x) order=[0, 1, 2, 3]
output y
)",
       .torch = "x.permute(0, 1, 2, 3)"},
      {.name = "volume",
       .graph = R"(
graph permute_volume
input x f32[2, 11, 2, 3, 4]
permute: y = permute(x) order=[0, 2, 3, 4, 1]
output y
)",
       .torch = "x.permute(0, 2, 3, 4, 1)"},
      {.name = "volume_back",
       .graph = R"(
graph permute_volume_back
input x f32.plain[2, 2, 3, 4, 17]
permute: y = permute(x) order=[0, 4, 1, 2, 3] format=map
output y
)",
       .torch = "x.permute(0, 4, 1, 2, 3)"},
      {.name = "heads",
       .graph = R"(
graph permute_heads
input x f32.plain[2, 5, 3, 7]
permute: y = permute(x) order=[0, 2, 1, 3]
output y
)",
       .torch = "x.permute(0, 2, 1, 3)"},
      {.name = "transpose",
       .graph = R"(
graph permute_transpose
input x f32[70, 90]
permute: y = permute(x) order=[1, 0]
output y
)",
       .torch = "x.permute(1, 0)"},
      {.name = "rank_six",
       .graph = R"(
graph permute_rank_six
input x f32[2, 3, 2, 4, 3, 2]
permute: y = permute(x) order=[5, 3, 1, 0, 4, 2]
output y
)",
       .torch = "x.permute(5, 3, 1, 0, 4, 2)"},
      {.name = "same",
       .graph = R"(
graph permute_same
input x f32[6, 7, 3]
permute: y = permute(x) order=[0, 1, 2]
output y
)",
       .torch = "x.permute(0, 1, 2)"},
      {.name = "integers",
       .graph = R"(
graph permute_integers
input x i32[6, 9, 2]
permute: y = permute(x) order=[2, 0, 1]
output y
)",
       .integer_limit = 1000,
       .differentiate = false,
       .torch = "x.permute(2, 0, 1)"},
      {.name = "bench_channels_last",
       .graph = R"(
graph permute_bench_channels_last
input x f32[8, 256, 56, 56]
permute: y = permute(x) order=[0, 2, 3, 1]
output y
)",
       .torch = "x.permute(0, 2, 3, 1).contiguous()",
       .bench = true},
      {.name = "bench_channels_first",
       .graph = R"(
graph permute_bench_channels_first
input x f32.plain[8, 56, 56, 256]
permute: y = permute(x) order=[0, 3, 1, 2] format=map
output y
)",
       .torch = "x.permute(0, 3, 1, 2).contiguous()",
       .bench = true},
      {.name = "bench_heads",
       .graph = R"(
graph permute_bench_heads
input x f32.plain[8, 512, 12, 64]
permute: y = permute(x) order=[0, 2, 1, 3]
output y
)",
       .torch = "x.permute(0, 2, 1, 3).contiguous()",
       .bench = true},
      {.name = "bench_transpose",
       .graph = R"(
graph permute_bench_transpose
input x f32[2048, 3072]
permute: y = permute(x) order=[1, 0]
output y
)",
       .torch = "x.permute(1, 0).contiguous()",
       .bench = true},
      {.name = "bench_to_map",
       .graph = R"(
graph permute_bench_to_map
input x f32.plain[8, 256, 56, 56]
permute: y = permute(x) order=[0, 1, 2, 3] format=map
output y
)",
       .torch = "x.permute(0, 1, 2, 3).contiguous()",
       .bench = true},
  };
}

}  // namespace outsize
