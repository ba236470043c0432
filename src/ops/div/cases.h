#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_div() {
  return {
      {.name = "map",
       .graph = R"(
graph div_map
input a f32[2, 11, 9, 7]
input b f32[2, 11, 9, 7]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "plain",
       .graph = R"(
graph div_plain
input a f32[6, 37]
input b f32[6, 37]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "volume",
       .graph = R"(
graph div_volume
input a f32[2, 9, 3, 4, 5]
input b f32[2, 9, 3, 4, 5]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "channels",
       .graph = R"(
graph div_channels
input a f32[2, 11, 5, 3]
input b f32[11, 1, 1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "channels_first",
       .graph = R"(
graph div_channels_first
input a f32[1, 5, 1, 1]
input b f32[2, 5, 3, 4]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "plain_channels",
       .graph = R"(
graph div_plain_channels
input a f32[2, 16, 3, 5]
input b f32.plain[1, 16, 1, 1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "volume_channels",
       .graph = R"(
graph div_volume_channels
input a f32[2, 9, 2, 3, 4]
input b f32.plain[9, 1, 1, 1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "number",
       .graph = R"(
graph div_number
input a f32[2, 11, 5, 3]
input b f32[1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "squeezed",
       .graph = R"(
graph div_squeezed
input a f32[3, 13, 4, 5]
input b f32[3, 13, 1, 1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "mask",
       .graph = R"(
graph div_mask
input a f32[3, 13, 4, 5]
input b f32[3, 1, 4, 5]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "crossed_maps",
       .graph = R"(
graph div_crossed_maps
input a f32[1, 10, 4, 1]
input b f32[3, 1, 4, 5]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "row",
       .graph = R"(
graph div_row
input a f32[4, 5, 9]
input b f32[9]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "column",
       .graph = R"(
graph div_column
input a f32[4, 5, 9]
input b f32[5, 1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "crossed",
       .graph = R"(
graph div_crossed
input a f32[4, 1, 8]
input b f32[3, 1]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "rank_six",
       .graph = R"(
graph div_rank_six
input a f32[2, 3, 1, 2, 1, 3]
input b f32[2, 3, 2, 2, 4, 3]
squash: s = sigmoid(b)
raise: d = affine(s) shift=0.5
div: y = div(a, d)
output y
)",
       .torch = "a / (torch.sigmoid(b) + 0.5)"},
      {.name = "bench_row",
       .graph = R"(
graph div_bench_row
input a f32[8, 512, 768]
input b f32[768]
div: y = div(a, b)
output y
)",
       .torch = "a / b",
       .bench = true},
      {.name = "bench_squeezed",
       .graph = R"(
graph div_bench_squeezed
input a f32[8, 256, 56, 56]
input b f32[8, 256, 1, 1]
div: y = div(a, b)
output y
)",
       .torch = "a / b",
       .bench = true},
  };
}

}  // namespace outsize
