#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_expand() {
  return {
      {.name = "row",
       .graph = R"(
graph expand_row
input x f32[9]
expand: y = expand(x) shape=[4, 5, 9]
output y
)",
       .torch = "x.expand(4, 5, 9)"},
      {.name = "column",
       .graph = R"(
graph expand_column
input x f32[5, 1]
expand: y = expand(x) shape=[4, 5, 9]
output y
)",
       .torch = "x.expand(4, 5, 9)"},
      {.name = "squeezed",
       .graph = R"(
graph expand_squeezed
input x f32[3, 13, 1, 1]
expand: y = expand(x) shape=[3, 13, 4, 5]
output y
)",
       .torch = "x.expand(3, 13, 4, 5)"},
      {.name = "channels",
       .graph = R"(
graph expand_channels
input x f32[11, 1, 1]
expand: y = expand(x) shape=[2, 11, 4, 5] format=map
output y
)",
       .torch = "x.expand(2, 11, 4, 5)"},
      {.name = "mask",
       .graph = R"(
graph expand_mask
input x f32[2, 1, 4, 5]
expand: y = expand(x) shape=[2, 11, 4, 5]
output y
)",
       .torch = "x.expand(2, 11, 4, 5)"},
      {.name = "volume",
       .graph = R"(
graph expand_volume
input x f32[1, 16, 2, 1, 3]
expand: y = expand(x) shape=[2, 16, 2, 4, 3]
output y
)",
       .torch = "x.expand(2, 16, 2, 4, 3)"},
      {.name = "bench",
       .graph = R"(
graph expand_bench
input x f32[8, 256, 1, 1]
expand: y = expand(x) shape=[8, 256, 56, 56]
output y
)",
       .torch = "x.expand(8, 256, 56, 56).contiguous()",
       .bench = true},
  };
}

}  // namespace outsize
