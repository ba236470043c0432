#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_slice() {
  return {
      {.name = "spatial",
       .graph = R"(
graph slice_spatial
input x f32[2, 11, 9, 7]
slice: y = slice(x) start=[0, 0, 2, 1] end=[2, 11, 8, 7]
output y
)",
       .torch = "x[0:2, 0:11, 2:8, 1:7]"},
      {.name = "samples",
       .graph = R"(
graph slice_samples
input x f32[4, 5, 3, 2]
slice: y = slice(x) start=[1, 0, 0, 0] end=[3, 5, 3, 2]
output y
)",
       .torch = "x[1:3, 0:5, 0:3, 0:2]"},
      {.name = "channels",
       .graph = R"(
graph slice_channels
input x f32[2, 21, 4, 5]
slice: y = slice(x) start=[0, 3, 0, 0] end=[2, 14, 4, 5]
output y
)",
       .torch = "x[0:2, 3:14, 0:4, 0:5]"},
      {.name = "blocks",
       .graph = R"(
graph slice_blocks
input x f32[2, 48, 3, 4]
slice: y = slice(x) start=[0, 16, 0, 0] end=[2, 32, 3, 4]
output y
)",
       .torch = "x[0:2, 16:32, 0:3, 0:4]"},
      {.name = "first_channels",
       .graph = R"(
graph slice_first_channels
input x f32[2, 40, 3, 4]
slice: y = slice(x) start=[0, 0, 0, 0] end=[2, 19, 3, 4]
output y
)",
       .torch = "x[0:2, 0:19, 0:3, 0:4]"},
      {.name = "last_channels",
       .graph = R"(
graph slice_last_channels
input x f32[2, 37, 3, 4]
slice: y = slice(x) start=[0, 16, 0, 0] end=[2, 37, 3, 4]
output y
)",
       .torch = "x[0:2, 16:37, 0:3, 0:4]"},
      {.name = "one_channel",
       .graph = R"(
graph slice_one_channel
input x f32[2, 11, 4, 5]
slice: y = slice(x) start=[0, 9, 1, 0] end=[2, 10, 3, 5]
output y
)",
       .torch = "x[0:2, 9:10, 1:3, 0:5]"},
      {.name = "channels_and_space",
       .graph = R"(
graph slice_channels_and_space
input x f32[3, 20, 5, 6]
slice: y = slice(x) start=[1, 5, 1, 2] end=[2, 20, 4, 5]
output y
)",
       .torch = "x[1:2, 5:20, 1:4, 2:5]"},
      // Runs of whole vectors.
      {.name = "crop",
       .graph = R"(
graph slice_crop
input x f32[2, 12, 6, 7]
slice: y = slice(x) start=[0, 4, 1, 2] end=[2, 12, 5, 6]
output y
)",
       .torch = "x[0:2, 4:12, 1:5, 2:6]"},
      {.name = "image",
       .graph = R"(
graph slice_image
input x f32[2, 3, 9, 11]
slice: y = slice(x) start=[0, 0, 1, 3] end=[2, 3, 8, 10]
output y
)",
       .torch = "x[0:2, 0:3, 1:8, 3:10]"},
      {.name = "volume",
       .graph = R"(
graph slice_volume
input x f32[2, 11, 5, 4, 6]
slice: y = slice(x) start=[0, 2, 1, 0, 3] end=[2, 9, 4, 4, 6]
output y
)",
       .torch = "x[0:2, 2:9, 1:4, 0:4, 3:6]"},
      {.name = "plain",
       .graph = R"(
graph slice_plain
input x f32[6, 5, 9]
slice: y = slice(x) start=[2, 0, 3] end=[5, 4, 9]
output y
)",
       .torch = "x[2:5, 0:4, 3:9]"},
      {.name = "rank_six",
       .graph = R"(
graph slice_rank_six
input x f32[2, 3, 3, 3, 3, 4]
slice: y = slice(x) start=[0, 1, 1, 1, 1, 1] end=[2, 2, 3, 2, 3, 3]
output y
)",
       .torch = "x[0:2, 1:2, 1:3, 1:2, 1:3, 1:3]"},
      {.name = "integers",
       .graph = R"(
graph slice_integers
input x i32[6, 9]
slice: y = slice(x) start=[1, 2] end=[5, 8]
output y
)",
       .integer_limit = 1000,
       .differentiate = false,
       .torch = "x[1:5, 2:8]"},
      {.name = "bench_blocks",
       .graph = R"(
graph slice_bench_blocks
input x f32[8, 256, 56, 56]
slice: y = slice(x) start=[0, 64, 0, 0] end=[8, 192, 56, 56]
output y
)",
       .torch = "x[0:8, 64:192, 0:56, 0:56]",
       .bench = true},
      {.name = "bench_channels",
       .graph = R"(
graph slice_bench_channels
input x f32[8, 256, 56, 56]
slice: y = slice(x) start=[0, 3, 0, 0] end=[8, 131, 56, 56]
output y
)",
       .torch = "x[0:8, 3:131, 0:56, 0:56]",
       .bench = true},
      {.name = "bench_crop",
       .graph = R"(
graph slice_bench_crop
input x f32[4, 64, 120, 120]
slice: y = slice(x) start=[0, 0, 8, 8] end=[4, 64, 112, 112]
output y
)",
       .torch = "x[0:4, 0:64, 8:112, 8:112]",
       .bench = true},
  };
}

}  // namespace outsize
