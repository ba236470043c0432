#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_conv() {
  return {
      {.name = "same",
       .graph = R"(
graph conv2d_same
input x f32[2, 3, 6, 5]
param weight f32[4, 3, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.conv2d(x, weight, padding=1)"},
      {.name = "valid_bias",
       .graph = R"(
graph conv2d_valid_bias
input x f32[3, 2, 5, 6]
param weight f32[5, 2, 3, 3] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv2d(x, weight, bias)
output y
)",
       .torch = "F.conv2d(x, weight, bias)"},
      {.name = "relu_bias",
       .graph = R"(
graph conv2d_relu_bias
input x f32[1, 5, 6, 5]
param weight f32[3, 5, 3, 3] init=normal:0.3
param bias f32[3] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] activation=relu
output y
)",
       .torch = "F.relu(F.conv2d(x, weight, bias, padding=1))"},
      {.name = "relu",
       .graph = R"(
graph conv2d_relu
input x f32[2, 4, 4, 5]
param weight f32[6, 4, 2, 2] init=normal:0.3
conv: y = conv2d(x, weight) activation=relu
output y
)",
       .torch = "F.relu(F.conv2d(x, weight))"},
      // Two ops read y, so that the sum of its gradient's parts is the gradient of the relu too.
      {.name = "relu_read_twice",
       .graph = R"(
graph conv2d_relu_read_twice
input x f32[2, 3, 5, 6]
param weight f32[9, 3, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1] activation=relu
tanh: t = tanh(y)
add: z = add(y, t)
output z
)",
       .torch = "(lambda y: y + torch.tanh(y))(F.relu(F.conv2d(x, weight, padding=1)))"},
      // Kernel, stride and padding differ between H and W; one padded row more below than above.
      {.name = "asymmetric",
       .graph = R"(
graph conv2d_asymmetric
input x f32[2, 3, 6, 7]
param weight f32[5, 3, 3, 2] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv2d(x, weight, bias) stride=[2, 1] padding=[1, 0, 2, 1]
output y
)",
       .torch = "F.conv2d(F.pad(x, (0, 1, 1, 2)), weight, bias, stride=(2, 1))"},
      // A stem: the kernel is larger than the stride, an odd and an even extent.
      {.name = "stride2",
       .graph = R"(
graph conv2d_stride2
input x f32[1, 3, 9, 8]
param weight f32[4, 3, 5, 5] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2] padding=[2, 2, 2, 2]
output y
)",
       .torch = "F.conv2d(x, weight, stride=2, padding=2)"},
      {.name = "pointwise",
       .graph = R"(
graph conv2d_pointwise
input x f32[3, 6, 3, 4]
param weight f32[7, 6, 1, 1] init=normal:0.3
param bias f32[7] init=normal:0.3
conv: y = conv2d(x, weight, bias)
output y
)",
       .torch = "F.conv2d(x, weight, bias)"},
      // The last row and column, and every second, are never read: their gradient is zero.
      {.name = "pointwise_stride2",
       .graph = R"(
graph conv2d_pointwise_stride2
input x f32[1, 5, 6, 8]
param weight f32[4, 5, 1, 1] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2]
output y
)",
       .torch = "F.conv2d(x, weight, stride=2)"},
      // The stride is larger than the kernel.
      {.name = "gaps",
       .graph = R"(
graph conv2d_gaps
input x f32[1, 2, 8, 9]
param weight f32[3, 2, 2, 2] init=normal:0.3
conv: y = conv2d(x, weight) stride=[3, 3]
output y
)",
       .torch = "F.conv2d(x, weight, stride=3)"},
      // The windows end before the input does.
      {.name = "leftover",
       .graph = R"(
graph conv2d_leftover
input x f32[2, 2, 8, 6]
param weight f32[3, 2, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2]
output y
)",
       .torch = "F.conv2d(x, weight, stride=2)"},
      // Channels in whole blocks of 8 and 16.
      {.name = "blocks_1x1",
       .graph = R"(
graph conv2d_blocks_1x1
input x f32[2, 16, 3, 3]
param weight f32[16, 16, 1, 1] init=normal:0.3
param bias f32[16] init=normal:0.3
conv: y = conv2d(x, weight, bias)
output y
)",
       .torch = "F.conv2d(x, weight, bias)"},
      {.name = "blocks_3x3",
       .graph = R"(
graph conv2d_blocks_3x3
input x f32[1, 8, 4, 3]
param weight f32[16, 8, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.conv2d(x, weight, padding=1)"},
      {.name = "large",
       .graph = R"(
graph conv2d_large
input x f32[2, 16, 20, 18]
param weight f32[32, 16, 3, 3] init=normal:0.3
param bias f32[32] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] activation=relu
output y
)",
       .differentiate = false,
       .torch = "F.relu(F.conv2d(x, weight, bias, padding=1))"},
      {.name = "large_stem",
       .graph = R"(
graph conv2d_large_stem
input x f32[1, 3, 40, 36]
param weight f32[24, 3, 7, 7] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2] padding=[3, 3, 3, 3]
output y
)",
       .differentiate = false,
       .torch = "F.conv2d(x, weight, stride=2, padding=3)"},
      // A padding larger than the kernel.
      {.name = "dilated",
       .graph = R"(
graph conv_dilated
input x f32[1, 3, 8, 7]
param weight f32[4, 3, 3, 2] init=normal:0.3
param bias f32[4] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[3, 1, 3, 1] dilation=[3, 2]
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=(3, 1), dilation=(3, 2))"},
      // Dilation and stride have a divisor in common along H, none along W.
      {.name = "dilated_stride",
       .graph = R"(
graph conv_dilated_stride
input x f32[1, 2, 13, 12]
param weight f32[3, 2, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) stride=[4, 3] padding=[2, 1, 3, 2] dilation=[2, 2]
output y
)",
       .torch = "F.conv2d(F.pad(x, (1, 2, 2, 3)), weight, stride=(4, 3), dilation=2)"},
      // Groups that do not fill blocks.
      {.name = "grouped",
       .graph = R"(
graph conv_grouped
input x f32[2, 6, 5, 4]
param weight f32[9, 2, 3, 3] init=normal:0.3
param bias f32[9] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] groups=3
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=1, groups=3)"},
      // Four groups fill a block of 16, two one of 8.
      {.name = "grouped_blocks",
       .graph = R"(
graph conv_grouped_blocks
input x f32[1, 32, 5, 6]
param weight f32[32, 4, 3, 3] init=normal:0.3
param bias f32[32] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] stride=[2, 2] groups=8
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=1, stride=2, groups=8)"},
      {.name = "grouped_pointwise",
       .graph = R"(
graph conv_grouped_pointwise
input x f32[1, 32, 4, 3]
param weight f32[64, 16, 1, 1] init=normal:0.3
param bias f32[64] init=normal:0.3
conv: y = conv2d(x, weight, bias) groups=2 activation=relu
output y
)",
       .torch = "F.relu(F.conv2d(x, weight, bias, groups=2))"},
      {.name = "depthwise",
       .graph = R"(
graph conv_depthwise
input x f32[2, 11, 6, 5]
param weight f32[11, 1, 3, 3] init=normal:0.3
param bias f32[11] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] groups=11
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=1, groups=11)"},
      {.name = "depthwise_stride",
       .graph = R"(
graph conv_depthwise_stride
input x f32[1, 16, 7, 8]
param weight f32[16, 1, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 2] padding=[1, 0, 1, 1] groups=16
output y
)",
       .torch = "F.conv2d(F.pad(x, (0, 1, 1, 1)), weight, stride=2, groups=16)"},
      {.name = "depthwise_large",
       .graph = R"(
graph conv_depthwise_large
input x f32[1, 9, 8, 9]
param weight f32[9, 1, 7, 7] init=normal:0.3
param bias f32[9] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[3, 3, 3, 3] groups=9
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=3, groups=9)"},
      {.name = "depthwise_dilated",
       .graph = R"(
graph conv_depthwise_dilated
input x f32[1, 8, 7, 8]
param weight f32[8, 1, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[2, 4, 2, 4] dilation=[2, 4] groups=8
output y
)",
       .torch = "F.conv2d(x, weight, padding=(2, 4), dilation=(2, 4), groups=8)"},
      {.name = "depthwise_even",
       .graph = R"(
graph conv_depthwise_even
input x f32[2, 12, 9, 19]
param weight f32[12, 1, 5, 5] init=normal:0.3
param bias f32[12] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[2, 2, 2, 2] groups=12 activation=relu
output y
)",
       .torch = "F.relu(F.conv2d(x, weight, bias, padding=2, groups=12))"},
      // Rows that are summed in parts, more channels than a block takes side by side.
      {.name = "depthwise_wide",
       .graph = R"(
graph conv_depthwise_wide
input x f32[1, 68, 1, 130]
param weight f32[68, 1, 1, 7] init=normal:0.3
conv: y = conv2d(x, weight) padding=[0, 3, 0, 3] groups=68
output y
)",
       .torch = "F.conv2d(x, weight, padding=(0, 3), groups=68)"},
      // Two outputs a channel.
      {.name = "depthwise_twice",
       .graph = R"(
graph conv_depthwise_twice
input x f32[1, 8, 4, 5]
param weight f32[16, 1, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1] groups=8
output y
)",
       .torch = "F.conv2d(x, weight, padding=1, groups=8)"},
      {.name = "deep",
       .graph = R"(
graph conv_deep
input x f32[1, 2, 4, 5, 3]
param weight f32[3, 2, 3, 3, 3] init=normal:0.3
param bias f32[3] init=normal:0.3
conv: y = conv3d(x, weight, bias) padding=[1, 1, 1, 1, 1, 1] activation=relu
output y
)",
       .torch = "F.relu(F.conv3d(x, weight, bias, padding=1))"},
      {.name = "deep_blocks",
       .graph = R"(
graph conv_deep_blocks
input x f32[1, 8, 3, 4, 3]
param weight f32[16, 8, 3, 1, 3] init=normal:0.3
conv: y = conv3d(x, weight) padding=[1, 0, 1, 1, 0, 1]
output y
)",
       .torch = "F.conv3d(x, weight, padding=(1, 0, 1))"},
      {.name = "deep_asymmetric",
       .graph = R"(
graph conv_deep_asymmetric
input x f32[2, 3, 5, 6, 4]
param weight f32[4, 3, 2, 3, 2] init=normal:0.3
param bias f32[4] init=normal:0.3
conv: y = conv3d(x, weight, bias) stride=[1, 2, 2] padding=[0, 1, 1, 1, 2, 0]
output y
)",
       .torch = "F.conv3d(F.pad(x, (1, 0, 1, 2, 0, 1)), weight, bias, stride=(1, 2, 2))"},
      // As U-Nets go down.
      {.name = "deep_halved",
       .graph = R"(
graph conv_deep_halved
input x f32[1, 4, 4, 6, 4]
param weight f32[5, 4, 2, 2, 2] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv3d(x, weight, bias) stride=[2, 2, 2]
output y
)",
       .torch = "F.conv3d(x, weight, bias, stride=2)"},
      {.name = "deep_stride",
       .graph = R"(
graph conv_deep_stride
input x f32[1, 3, 5, 4, 6]
param weight f32[4, 3, 3, 3, 3] init=normal:0.3
conv: y = conv3d(x, weight) stride=[2, 2, 2] padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.conv3d(x, weight, stride=2, padding=1)"},
      {.name = "deep_pointwise",
       .graph = R"(
graph conv_deep_pointwise
input x f32[2, 5, 3, 2, 4]
param weight f32[3, 5, 1, 1, 1] init=normal:0.3
param bias f32[3] init=normal:0.3
conv: y = conv3d(x, weight, bias)
output y
)",
       .torch = "F.conv3d(x, weight, bias)"},
      {.name = "deep_dilated",
       .graph = R"(
graph conv_deep_dilated
input x f32[1, 3, 5, 6, 5]
param weight f32[2, 3, 3, 3, 2] init=normal:0.3
conv: y = conv3d(x, weight) padding=[2, 0, 1, 2, 0, 1] dilation=[2, 2, 1]
output y
)",
       .torch = "F.conv3d(x, weight, padding=(2, 0, 1), dilation=(2, 2, 1))"},
      {.name = "deep_depthwise",
       .graph = R"(
graph conv_deep_depthwise
input x f32[1, 9, 4, 3, 5]
param weight f32[9, 1, 3, 3, 3] init=normal:0.3
param bias f32[9] init=normal:0.3
conv: y = conv3d(x, weight, bias) padding=[1, 1, 1, 1, 1, 1] groups=9
output y
)",
       .torch = "F.conv3d(x, weight, bias, padding=1, groups=9)"},
      {.name = "deep_grouped",
       .graph = R"(
graph conv_deep_grouped
input x f32[1, 16, 3, 4, 3]
param weight f32[16, 8, 3, 3, 3] init=normal:0.3
conv: y = conv3d(x, weight) padding=[1, 1, 1, 1, 1, 1] groups=2
output y
)",
       .torch = "F.conv3d(x, weight, padding=1, groups=2)"},
      // Windows side by side, as vision transformers begin.
      {.name = "patches",
       .graph = R"(
graph conv_patches
input x f32[2, 3, 9, 12]
param weight f32[5, 3, 4, 4] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv2d(x, weight, bias) stride=[4, 4]
output y
)",
       .torch = "F.conv2d(x, weight, bias, stride=4)"},
      {.name = "deep_patches",
       .graph = R"(
graph conv_deep_patches
input x f32[1, 2, 4, 5, 6]
param weight f32[4, 2, 2, 2, 3] init=normal:0.3
conv: y = conv3d(x, weight) stride=[2, 2, 3] padding=[0, 1, 0, 0, 0, 1]
output y
)",
       .torch = "F.conv3d(F.pad(x, (0, 1, 1, 0, 0, 0)), weight, stride=(2, 2, 3))"},
      {.name = "deep_stem",
       .graph = R"(
graph conv_deep_stem
input x f32[1, 1, 4, 5, 4]
param weight f32[4, 1, 3, 3, 3] init=normal:0.3
param bias f32[4] init=normal:0.3
conv: y = conv3d(x, weight, bias) padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.conv3d(x, weight, bias, padding=1)"},
      // Rows of three taps whose weight gradients are our own loops: more channels than a block, x ending before its padding does,
      // rows that a stride or a dilation skips.
      {.name = "rows",
       .graph = R"(
graph conv_rows
input x f32[2, 19, 8, 6]
param weight f32[18, 19, 2, 3] init=normal:0.3
param bias f32[18] init=normal:0.3
conv: y = conv2d(x, weight, bias) stride=[2, 1] padding=[1, 2, 0, 0] dilation=[2, 1]
output y
)",
       .torch = "F.conv2d(F.pad(x, (2, 0, 1, 0)), weight, bias, stride=(2, 1), dilation=(2, 1))"},
      // Every window reaches over both ends of x.
      {.name = "rows_narrow",
       .graph = R"(
graph conv_rows_narrow
input x f32[2, 9, 3, 1]
param weight f32[4, 9, 3, 3] init=normal:0.3
conv: y = conv2d(x, weight) padding=[1, 2, 1, 2]
output y
)",
       .torch = "F.conv2d(x, weight, padding=(1, 2))"},
      // Rows and samples that are summed in parts.
      {.name = "rows_long",
       .graph = R"(
graph conv_rows_long
input x f32[2, 4, 3, 1100]
param weight f32[5, 4, 1, 3] init=normal:0.3
param bias f32[5] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[0, 1, 0, 1]
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=(0, 1))"},
      {.name = "deep_rows",
       .graph = R"(
graph conv_deep_rows
input x f32[1, 17, 5, 6, 5]
param weight f32[16, 17, 3, 2, 3] init=normal:0.3
param bias f32[16] init=normal:0.3
conv: y = conv3d(x, weight, bias) stride=[2, 1, 1] padding=[1, 0, 0, 1, 2, 2] dilation=[1, 2, 1]
output y
)",
       .torch = "F.conv3d(F.pad(x, (0, 2, 0, 2, 1, 1)), weight, bias, stride=(2, 1, 1), dilation=(1, 2, 1))"},
      // Planar images: as they are, with windows that end before the image does, cut into patches, and where blocks are needed.
      {.name = "planar",
       .graph = R"(
graph conv2d_planar
input x f32.planar[2, 3, 9, 8]
param weight f32[20, 3, 3, 3] init=normal:0.3
param bias f32[20] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[1, 1, 1, 1] activation=relu
output y
)",
       .torch = "F.relu(F.conv2d(x, weight, bias, padding=1))"},
      {.name = "planar_stride",
       .graph = R"(
graph conv2d_planar_stride
input x f32.planar[1, 3, 12, 10]
param weight f32[16, 3, 5, 3] init=normal:0.3
conv: y = conv2d(x, weight) stride=[2, 3] padding=[2, 0, 1, 1]
output y
)",
       .torch = "F.conv2d(F.pad(x, (0, 1, 2, 1)), weight, stride=(2, 3))"},
      {.name = "planar_patches",
       .graph = R"(
graph conv2d_planar_patches
input x f32.planar[2, 3, 8, 12]
param weight f32[17, 3, 4, 4] init=normal:0.3
conv: y = conv2d(x, weight) stride=[4, 4]
output y
)",
       .torch = "F.conv2d(x, weight, stride=4)"},
      {.name = "planar_pointwise",
       .graph = R"(
graph conv2d_planar_pointwise
input x f32.planar[2, 2, 5, 4]
param weight f32[7, 2, 1, 1] init=normal:0.3
conv: y = conv2d(x, weight)
output y
)",
       .torch = "F.conv2d(x, weight)"},
      {.name = "planar_deep",
       .graph = R"(
graph conv3d_planar
input x f32.planar[2, 1, 6, 5, 7]
param weight f32[16, 1, 3, 3, 3] init=normal:0.3
conv: y = conv3d(x, weight) padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.conv3d(x, weight, padding=1)"},
      {.name = "planar_dilated",
       .graph = R"(
graph conv2d_planar_dilated
input x f32.planar[1, 3, 9, 9]
param weight f32[5, 3, 3, 2] init=normal:0.3
conv: y = conv2d(x, weight) dilation=[2, 3] padding=[2, 1, 1, 0]
output y
)",
       .torch = "F.conv2d(F.pad(x, (1, 0, 2, 1)), weight, dilation=(2, 3))"},
      {.name = "bench_3x3",
       .graph = R"(
graph conv_bench_3x3
input x f32[8, 128, 28, 28]
param weight f32[128, 128, 3, 3] init=normal:0.1
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.conv2d(x, weight, padding=1)",
       .bench = true},
      // ConvNeXt.
      {.name = "bench_depthwise",
       .graph = R"(
graph conv_bench_depthwise
input x f32[8, 96, 56, 56]
param weight f32[96, 1, 7, 7] init=normal:0.1
param bias f32[96] init=normal:0.3
conv: y = conv2d(x, weight, bias) padding=[3, 3, 3, 3] groups=96
output y
)",
       .torch = "F.conv2d(x, weight, bias, padding=3, groups=96)",
       .bench = true},
      // MobileNet.
      {.name = "bench_depthwise_stride",
       .graph = R"(
graph conv_bench_depthwise_stride
input x f32[8, 144, 56, 56]
param weight f32[144, 1, 3, 3] init=normal:0.1
conv: y = conv2d(x, weight) stride=[2, 2] padding=[1, 1, 1, 1] groups=144
output y
)",
       .torch = "F.conv2d(x, weight, stride=2, padding=1, groups=144)",
       .bench = true},
      // ResNeXt.
      {.name = "bench_grouped",
       .graph = R"(
graph conv_bench_grouped
input x f32[8, 128, 56, 56]
param weight f32[128, 4, 3, 3] init=normal:0.1
conv: y = conv2d(x, weight) padding=[1, 1, 1, 1] groups=32
output y
)",
       .torch = "F.conv2d(x, weight, padding=1, groups=32)",
       .bench = true},
      // DeepLab.
      {.name = "bench_dilated",
       .graph = R"(
graph conv_bench_dilated
input x f32[1, 256, 64, 64]
param weight f32[256, 256, 3, 3] init=normal:0.1
conv: y = conv2d(x, weight) padding=[12, 12, 12, 12] dilation=[12, 12]
output y
)",
       .torch = "F.conv2d(x, weight, padding=12, dilation=12)",
       .bench = true},
      // ViT.
      {.name = "bench_patches",
       .graph = R"(
graph conv_bench_patches
input x f32[8, 3, 224, 224]
param weight f32[768, 3, 16, 16] init=normal:0.1
param bias f32[768] init=normal:0.3
conv: y = conv2d(x, weight, bias) stride=[16, 16]
output y
)",
       .torch = "F.conv2d(x, weight, bias, stride=16)",
       .bench = true},
      // The widest level of a 3-D U-Net.
      {.name = "bench_deep",
       .graph = R"(
graph conv_bench_deep
input x f32[1, 32, 64, 64, 64]
param weight f32[32, 32, 3, 3, 3] init=normal:0.1
param bias f32[32] init=normal:0.3
conv: y = conv3d(x, weight, bias) padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.conv3d(x, weight, bias, padding=1)",
       .bench = true},
      {.name = "bench_deep_stem",
       .graph = R"(
graph conv_bench_deep_stem
input x f32[1, 1, 64, 64, 64]
param weight f32[32, 1, 3, 3, 3] init=normal:0.1
param bias f32[32] init=normal:0.3
conv: y = conv3d(x, weight, bias) padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.conv3d(x, weight, bias, padding=1)",
       .bench = true},
      {.name = "bench_deep_stride",
       .graph = R"(
graph conv_bench_deep_stride
input x f32[1, 32, 64, 64, 64]
param weight f32[64, 32, 3, 3, 3] init=normal:0.1
conv: y = conv3d(x, weight) stride=[2, 2, 2] padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.conv3d(x, weight, stride=2, padding=1)",
       .bench = true},
  };
}

}  // namespace outsize
