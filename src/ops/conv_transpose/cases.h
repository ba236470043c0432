#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_conv_transpose() {
  return {
      // As U-Nets go up: kernel and stride alike.
      {.name = "double",
       .graph = R"(
graph conv_transpose_double
input x f32[2, 6, 4, 5]
param weight f32[6, 3, 2, 2] init=normal:0.3
param bias f32[3] init=normal:0.3
up: y = conv_transpose2d(x, weight, bias) stride=[2, 2]
output y
)",
       .torch = "F.conv_transpose2d(x, weight, bias, stride=2)"},
      {.name = "same",
       .graph = R"(
graph conv_transpose_same
input x f32[1, 3, 5, 4]
param weight f32[3, 5, 3, 3] init=normal:0.3
up: y = conv_transpose2d(x, weight) padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.conv_transpose2d(x, weight, padding=1)"},
      // Overlapping windows, some positions past the last, more padding on one side.
      {.name = "overlap",
       .graph = R"(
graph conv_transpose_overlap
input x f32[2, 4, 4, 3]
param weight f32[4, 9, 3, 4] init=normal:0.3
param bias f32[9] init=normal:0.3
up: y = conv_transpose2d(x, weight, bias) stride=[2, 3] padding=[1, 1, 0, 2] output_padding=[1, 2]
output y
)",
       .torch = "F.pad(F.conv_transpose2d(x, weight, bias, stride=(2, 3), output_padding=(1, 2)), (-1, -2, -1, 0))"},
      // The stride leaves positions that no input reaches: the bias alone.
      {.name = "gaps",
       .graph = R"(
graph conv_transpose_gaps
input x f32[1, 5, 3, 4]
param weight f32[5, 2, 1, 2] init=normal:0.3
param bias f32[2] init=normal:0.3
up: y = conv_transpose2d(x, weight, bias) stride=[2, 3]
output y
)",
       .torch = "F.conv_transpose2d(x, weight, bias, stride=(2, 3))"},
      {.name = "grouped",
       .graph = R"(
graph conv_transpose_grouped
input x f32[1, 6, 4, 3]
param weight f32[6, 2, 3, 3] init=normal:0.3
param bias f32[6] init=normal:0.3
up: y = conv_transpose2d(x, weight, bias) stride=[2, 2] groups=3
output y
)",
       .torch = "F.conv_transpose2d(x, weight, bias, stride=2, groups=3)"},
      {.name = "dilated",
       .graph = R"(
graph conv_transpose_dilated
input x f32[1, 3, 4, 5]
param weight f32[3, 4, 2, 3] init=normal:0.3
up: y = conv_transpose2d(x, weight) stride=[2, 3] dilation=[2, 2]
output y
)",
       .torch = "F.conv_transpose2d(x, weight, stride=(2, 3), dilation=2)"},
      {.name = "deep_double",
       .graph = R"(
graph conv_transpose_deep_double
input x f32[1, 4, 3, 2, 3]
param weight f32[4, 3, 2, 2, 2] init=normal:0.3
param bias f32[3] init=normal:0.3
up: y = conv_transpose3d(x, weight, bias) stride=[2, 2, 2]
output y
)",
       .torch = "F.conv_transpose3d(x, weight, bias, stride=2)"},
      {.name = "deep_overlap",
       .graph = R"(
graph conv_transpose_deep_overlap
input x f32[1, 2, 3, 2, 3]
param weight f32[2, 3, 3, 2, 3] init=normal:0.3
up: y = conv_transpose3d(x, weight) stride=[2, 1, 2] padding=[1, 0, 1, 1, 0, 1] output_padding=[1, 0, 0]
output y
)",
       .torch = "F.conv_transpose3d(x, weight, stride=(2, 1, 2), padding=(1, 0, 1), output_padding=(1, 0, 0))"},
      {.name = "bench_unet",
       .graph = R"(
graph conv_transpose_bench_unet
input x f32[1, 64, 32, 32, 32]
param weight f32[64, 32, 2, 2, 2] init=normal:0.1
param bias f32[32]
up: y = conv_transpose3d(x, weight, bias) stride=[2, 2, 2]
output y
)",
       .torch = "F.conv_transpose3d(x, weight, bias, stride=2)",
       .bench = true},
      {.name = "bench_gan",
       .graph = R"(
graph conv_transpose_bench_gan
input x f32[8, 128, 32, 32]
param weight f32[128, 64, 4, 4] init=normal:0.1
up: y = conv_transpose2d(x, weight) stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.conv_transpose2d(x, weight, stride=2, padding=1)",
       .bench = true},
  };
}

}  // namespace outsize
