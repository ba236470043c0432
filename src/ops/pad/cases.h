#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_pad() {
  return {
      {.name = "spatial",
       .graph = R"(
graph pad_spatial
input x f32[2, 11, 4, 5]
pad: y = pad(x) before=[0, 0, 2, 1] after=[0, 0, 1, 3]
output y
)",
       .torch = "F.pad(x, (1, 3, 2, 1, 0, 0, 0, 0))"},
      {.name = "spatial_value",
       .graph = R"(
graph pad_spatial_value
input x f32[2, 11, 4, 5]
pad: y = pad(x) before=[0, 0, 0, 1] after=[0, 0, 2, 0] value=-1.5
output y
)",
       .torch = "F.pad(x, (1, 0, 0, 2, 0, 0, 0, 0), value=-1.5)"},
      {.name = "channels",
       .graph = R"(
graph pad_channels
input x f32[2, 11, 3, 4]
pad: y = pad(x) before=[0, 3, 0, 0] after=[0, 7, 0, 0]
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0, 3, 7, 0, 0))"},
      {.name = "channels_value",
       .graph = R"(
graph pad_channels_value
input x f32[2, 11, 3, 4]
pad: y = pad(x) before=[0, 3, 0, 0] after=[0, 0, 0, 0] value=2
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0, 3, 0, 0, 0), value=2)"},
      {.name = "blocks",
       .graph = R"(
graph pad_blocks
input x f32[2, 16, 3, 4]
pad: y = pad(x) before=[0, 16, 0, 0] after=[0, 16, 0, 0]
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0, 16, 16, 0, 0))"},
      {.name = "channels_after",
       .graph = R"(
graph pad_channels_after
input x f32[2, 5, 3, 4]
pad: y = pad(x) before=[0, 0, 0, 0] after=[0, 11, 0, 0]
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0, 0, 11, 0, 0))"},
      {.name = "samples",
       .graph = R"(
graph pad_samples
input x f32[2, 9, 3, 4]
pad: y = pad(x) before=[1, 0, 0, 0] after=[2, 0, 0, 0]
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0, 0, 0, 1, 2))"},
      // Whole vectors.
      {.name = "fours",
       .graph = R"(
graph pad_fours
input x f32[2, 12, 3, 4]
pad: y = pad(x) before=[0, 4, 1, 1] after=[0, 8, 0, 2] value=3
output y
)",
       .torch = "F.pad(x, (1, 2, 1, 0, 4, 8, 0, 0), value=3)"},
      {.name = "image",
       .graph = R"(
graph pad_image
input x f32[2, 3, 5, 7]
pad: y = pad(x) before=[0, 0, 1, 2] after=[0, 0, 2, 0]
output y
)",
       .torch = "F.pad(x, (2, 0, 1, 2, 0, 0, 0, 0))"},
      {.name = "volume",
       .graph = R"(
graph pad_volume
input x f32[2, 9, 3, 4, 2]
pad: y = pad(x) before=[0, 1, 1, 0, 2] after=[1, 0, 2, 1, 0] value=0.5
output y
)",
       .torch = "F.pad(x, (2, 0, 0, 1, 1, 2, 1, 0, 0, 1), value=0.5)"},
      {.name = "plain",
       .graph = R"(
graph pad_plain
input x f32[4, 3, 5]
pad: y = pad(x) before=[1, 0, 2] after=[0, 2, 1]
output y
)",
       .torch = "F.pad(x, (2, 1, 0, 2, 1, 0))"},
      {.name = "nothing",
       .graph = R"(
graph pad_nothing
input x f32[4, 3]
pad: y = pad(x) before=[0, 0] after=[0, 0]
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0))"},
      {.name = "integers",
       .graph = R"(
graph pad_integers
input x i32[4, 5]
pad: y = pad(x) before=[1, 0] after=[0, 2] value=-100
output y
)",
       .integer_limit = 1000,
       .differentiate = false,
       .torch = "F.pad(x, (0, 2, 1, 0), value=-100)"},
      {.name = "bench_spatial",
       .graph = R"(
graph pad_bench_spatial
input x f32[8, 256, 56, 56]
pad: y = pad(x) before=[0, 0, 1, 1] after=[0, 0, 1, 1]
output y
)",
       .torch = "F.pad(x, (1, 1, 1, 1, 0, 0, 0, 0))",
       .bench = true},
      {.name = "bench_channels",
       .graph = R"(
graph pad_bench_channels
input x f32[8, 192, 28, 28]
pad: y = pad(x) before=[0, 0, 0, 0] after=[0, 64, 0, 0]
output y
)",
       .torch = "F.pad(x, (0, 0, 0, 0, 0, 64, 0, 0))",
       .bench = true},
  };
}

}  // namespace outsize
