#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_conv2d() {
  return {
      {"same", R"(
graph conv2d_same
input x f32[2, 3, 6, 5]
param weight f32[4, 3, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1]
output y
)"},
      {"valid_bias", R"(
graph conv2d_valid_bias
input x f32[3, 2, 5, 6]
param weight f32[5, 2, 3, 3] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv2d(x, weight, bias)
output y
)"},
      {"relu_bias", R"(
graph conv2d_relu_bias
input x f32[1, 5, 6, 5]
param weight f32[3, 5, 3, 3] init=normal:0.3
param bias f32[3] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] activation=relu
output y
)"},
      {"relu", R"(
graph conv2d_relu
input x f32[2, 4, 4, 5]
param weight f32[6, 4, 2, 2] init=normal:0.3
conv: y = conv2d(x, weight) activation=relu
output y
)"},
      // Kernel, stride and padding differ between H and W; one padded row more below than above.
      {"asymmetric", R"(
graph conv2d_asymmetric
input x f32[2, 3, 6, 7]
param weight f32[5, 3, 3, 2] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv2d(x, weight, bias) stride=[2, 1] padding=[1, 0, 2, 1]
output y
)"},
      // A stem: the kernel is larger than the stride, an odd and an even extent.
      {"stride2", R"(
graph conv2d_stride2
input x f32[1, 3, 9, 8]
param weight f32[4, 3, 5, 5] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2] padding=[2, 2, 2, 2]
output y
)"},
      {"pointwise", R"(
graph conv2d_pointwise
input x f32[3, 6, 3, 4]
param weight f32[7, 6, 1, 1] init=normal:0.3
param bias f32[7] init=normal:0.3
conv: y = conv2d(x, weight, bias)
output y
)"},
      // The last row and column, and every second, are never read: their gradient is zero.
      {"pointwise_stride2", R"(
graph conv2d_pointwise_stride2
input x f32[1, 5, 6, 8]
param weight f32[4, 5, 1, 1] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2]
output y
)"},
      // The stride is larger than the kernel.
      {"gaps", R"(
graph conv2d_gaps
input x f32[1, 2, 8, 9]
param weight f32[3, 2, 2, 2] init=normal:0.3
conv: y = conv2d(x, weight) stride=[3, 3]
output y
)"},
      // The windows end before the input does.
      {"leftover", R"(
graph conv2d_leftover
input x f32[2, 2, 8, 6]
param weight f32[3, 2, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2]
output y
)"},
      // Channels in whole blocks of 8 and 16.
      {"blocks_1x1", R"(
graph conv2d_blocks_1x1
input x f32[2, 16, 3, 3]
param weight f32[16, 16, 1, 1] init=normal:0.3
param bias f32[16] init=normal:0.3
conv: y = conv2d(x, weight, bias)
output y
)"},
      {"blocks_3x3", R"(
graph conv2d_blocks_3x3
input x f32[1, 8, 4, 3]
param weight f32[16, 8, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1]
output y
)"},
      {.name = "large",
       .graph = R"(
graph conv2d_large
input x f32[2, 16, 20, 18]
param weight f32[32, 16, 3, 3] init=normal:0.3
param bias f32[32] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] activation=relu
output y
)",
       .differentiate = false},
      {.name = "large_stem",
       .graph = R"(
graph conv2d_large_stem
input x f32[1, 3, 40, 36]
param weight f32[24, 3, 7, 7] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2] padding=[3, 3, 3, 3]
output y
)",
       .differentiate = false},
  };
}

}  // namespace outsize
