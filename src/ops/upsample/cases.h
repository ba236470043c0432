#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_upsample() {
  return {
      {.name = "nearest",
       .graph = R"(
graph upsample_nearest
input x f32[2, 3, 4, 5]
up: y = upsample(x) output=[8, 10]
output y
)",
       .torch = "F.interpolate(x, size=(8, 10), mode='nearest')"},
      // Larger by a fraction along one dimension, smaller along the other.
      {.name = "nearest_uneven",
       .graph = R"(
graph upsample_nearest_uneven
input x f32[1, 11, 5, 4]
up: y = upsample(x) output=[8, 3]
output y
)",
       .torch = "F.interpolate(x, size=(8, 3), mode='nearest')"},
      {.name = "linear",
       .graph = R"(
graph upsample_linear
input x f32[2, 9, 4, 5]
up: y = upsample(x) mode=linear output=[8, 10]
output y
)",
       .torch = "F.interpolate(x, size=(8, 10), mode='bilinear', align_corners=False)"},
      {.name = "linear_uneven",
       .graph = R"(
graph upsample_linear_uneven
input x f32[1, 5, 5, 4]
up: y = upsample(x) mode=linear output=[7, 11]
output y
)",
       .torch = "F.interpolate(x, size=(7, 11), mode='bilinear', align_corners=False)"},
      // Some inputs are read by no output.
      {.name = "linear_smaller",
       .graph = R"(
graph upsample_linear_smaller
input x f32[1, 3, 9, 7]
up: y = upsample(x) mode=linear output=[4, 2]
output y
)",
       .torch = "F.interpolate(x, size=(4, 2), mode='bilinear', align_corners=False)"},
      {.name = "corners",
       .graph = R"(
graph upsample_corners
input x f32[2, 3, 4, 5]
up: y = upsample(x) mode=linear align_corners=1 output=[7, 10]
output y
)",
       .torch = "F.interpolate(x, size=(7, 10), mode='bilinear', align_corners=True)"},
      {.name = "corners_smaller",
       .graph = R"(
graph upsample_corners_smaller
input x f32[1, 3, 9, 7]
up: y = upsample(x) mode=linear align_corners=1 output=[4, 1]
output y
)",
       .torch = "F.interpolate(x, size=(4, 1), mode='bilinear', align_corners=True)"},
      {.name = "single",
       .graph = R"(
graph upsample_single
input x f32[2, 3, 1, 1]
up: y = upsample(x) mode=linear output=[3, 4]
output y
)",
       .torch = "F.interpolate(x, size=(3, 4), mode='bilinear', align_corners=False)"},
      {.name = "single_corners",
       .graph = R"(
graph upsample_single_corners
input x f32[2, 3, 1, 2]
up: y = upsample(x) mode=linear align_corners=1 output=[3, 4]
output y
)",
       .torch = "F.interpolate(x, size=(3, 4), mode='bilinear', align_corners=True)"},
      // Lines longer than what a kernel blends at once.
      {.name = "long",
       .graph = R"(
graph upsample_long
input x f32[1, 2, 3, 100]
up: y = upsample(x) mode=linear output=[5, 300]
output y
)",
       .differentiate = false,
       .torch = "F.interpolate(x, size=(5, 300), mode='bilinear', align_corners=False)"},
      // Whole vectors of channels; and gradients of more terms than a thread adds up.
      {.name = "fours",
       .graph = R"(
graph upsample_fours
input x f32[2, 12, 4, 5]
up: y = upsample(x) mode=linear output=[8, 10]
output y
)",
       .torch = "F.interpolate(x, size=(8, 10), mode='bilinear', align_corners=False)"},
      {.name = "much_larger",
       .graph = R"(
graph upsample_much_larger
input x f32[2, 3, 2, 3]
up: y = upsample(x) mode=linear output=[20, 31]
output y
)",
       .torch = "F.interpolate(x, size=(20, 31), mode='bilinear', align_corners=False)"},
      {.name = "much_larger_fours",
       .graph = R"(
graph upsample_much_larger_fours
input x f32[1, 4, 3, 2]
up: y = upsample(x) output=[40, 25]
output y
)",
       .torch = "F.interpolate(x, size=(40, 25), mode='nearest')"},
      {.name = "volume_nearest",
       .graph = R"(
graph upsample_volume_nearest
input x f32[1, 5, 2, 3, 4]
up: y = upsample(x) output=[4, 6, 8]
output y
)",
       .torch = "F.interpolate(x, size=(4, 6, 8), mode='nearest')"},
      {.name = "volume_linear",
       .graph = R"(
graph upsample_volume_linear
input x f32[1, 9, 2, 3, 4]
up: y = upsample(x) mode=linear output=[4, 6, 8]
output y
)",
       .torch = "F.interpolate(x, size=(4, 6, 8), mode='trilinear', align_corners=False)"},
      {.name = "volume_corners",
       .graph = R"(
graph upsample_volume_corners
input x f32[2, 3, 3, 2, 4]
up: y = upsample(x) mode=linear align_corners=1 output=[4, 5, 3]
output y
)",
       .torch = "F.interpolate(x, size=(4, 5, 3), mode='trilinear', align_corners=True)"},
      {.name = "bench",
       .graph = R"(
graph upsample_bench
input x f32[2, 64, 128, 128]
up: y = upsample(x) mode=linear output=[256, 256]
output y
)",
       .torch = "F.interpolate(x, size=(256, 256), mode='bilinear', align_corners=False)",
       .bench = true},
      {.name = "bench_nearest",
       .graph = R"(
graph upsample_bench_nearest
input x f32[2, 64, 128, 128]
up: y = upsample(x) output=[256, 256]
output y
)",
       .torch = "F.interpolate(x, size=(256, 256), mode='nearest')",
       .bench = true},
      {.name = "bench_volume",
       .graph = R"(
graph upsample_bench_volume
input x f32[1, 64, 32, 32, 32]
up: y = upsample(x) mode=linear output=[64, 64, 64]
output y
)",
       .torch = "F.interpolate(x, size=(64, 64, 64), mode='trilinear', align_corners=False)",
       .bench = true},
  };
}

}  // namespace outsize
