#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_max_pool() {
  return {
      {.name = "two",
       .graph = R"(
graph max_pool_two
input x f32[2, 3, 6, 4]
pool: y = max_pool(x)
output y
)",
       .torch = "F.max_pool2d(x, 2)"},
      // The pooling of a ResNet stem, over an odd and an even extent.
      {.name = "overlapping",
       .graph = R"(
graph max_pool_overlapping
input x f32[1, 5, 7, 6]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.max_pool2d(x, 3, 2, 1)"},
      {"asymmetric", R"(
graph max_pool_asymmetric
input x f32[3, 2, 6, 7]
pool: y = max_pool(x) kernel=[3, 2] stride=[1, 2] padding=[1, 0, 0, 1]
output y
)"},
      // Every element is in up to nine windows.
      {.name = "dense",
       .graph = R"(
graph max_pool_dense
input x f32[1, 3, 5, 5]
pool: y = max_pool(x) kernel=[3, 3] stride=[1, 1] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.max_pool2d(x, 3, 1, 1)"},
      // Some inputs are in no window.
      {.name = "gaps",
       .graph = R"(
graph max_pool_gaps
input x f32[1, 3, 8, 9]
pool: y = max_pool(x) kernel=[2, 2] stride=[3, 3]
output y
)",
       .torch = "F.max_pool2d(x, 2, 3)"},
      // The last row and column are in no window.
      {.name = "leftover",
       .graph = R"(
graph max_pool_leftover
input x f32[2, 3, 5, 7]
pool: y = max_pool(x)
output y
)",
       .torch = "F.max_pool2d(x, 2)"},
      {.name = "relu",
       .graph = R"(
graph max_pool_relu
input x f32[2, 3, 6, 6]
pool: y = max_pool(x) activation=relu
output y
)",
       .torch = "F.relu(F.max_pool2d(x, 2))"},
      {.name = "relu_overlapping",
       .graph = R"(
graph max_pool_relu_overlapping
input x f32[1, 16, 6, 5]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1] activation=relu
output y
)",
       .torch = "F.relu(F.max_pool2d(x, 3, 2, 1))"},
      // What fusion makes relu part of.
      {.name = "after_relu",
       .graph = R"(
graph max_pool_after_relu
input x f32[3, 4, 4, 4]
relu: z = relu(x)
pool: y = max_pool(z)
output y
)",
       .torch = "F.max_pool2d(F.relu(x), 2)"},
      {.name = "large",
       .graph = R"(
graph max_pool_large
input x f32[2, 32, 30, 26]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .differentiate = false},
      // Whole vectors of channels; an image; and more channels than a block takes side by side.
      {.name = "fours",
       .graph = R"(
graph max_pool_fours
input x f32[2, 12, 9, 7]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.max_pool2d(x, 3, 2, 1)"},
      {.name = "image",
       .graph = R"(
graph max_pool_image
input x f32[2, 3, 71, 45]
pool: y = max_pool(x) kernel=[2, 3] stride=[1, 2]
output y
)",
       .differentiate = false,
       .torch = "F.max_pool2d(x, (2, 3), (1, 2))"},
      {.name = "one_channel",
       .graph = R"(
graph max_pool_one_channel
input x f32[1, 1, 9, 10]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1] activation=relu
output y
)",
       .torch = "F.relu(F.max_pool2d(x, 3, 2, 1))"},
      {.name = "many_channels",
       .graph = R"(
graph max_pool_many_channels
input x f32[1, 1036, 4, 3]
pool: y = max_pool(x)
output y
)",
       .differentiate = false,
       .torch = "F.max_pool2d(x, 2)"},
      {.name = "volume",
       .graph = R"(
graph max_pool_volume
input x f32[2, 3, 4, 5, 6]
pool: y = max_pool(x)
output y
)",
       .torch = "F.max_pool3d(x, 2)"},
      {.name = "volume_overlapping",
       .graph = R"(
graph max_pool_volume_overlapping
input x f32[1, 9, 5, 4, 5]
pool: y = max_pool(x) kernel=[3, 3, 3] stride=[2, 2, 2] padding=[1, 1, 1, 1, 1, 1]
output y
)",
       .torch = "F.max_pool3d(x, 3, 2, 1)"},
      {.name = "volume_uneven", .graph = R"(
graph max_pool_volume_uneven
input x f32[2, 5, 4, 5, 6]
pool: y = max_pool(x) kernel=[1, 3, 2] stride=[1, 2, 3] padding=[0, 1, 0, 0, 0, 1] activation=relu
output y
)"},
      {.name = "bench",
       .graph = R"(
graph max_pool_bench
input x f32[8, 64, 112, 112]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .torch = "F.max_pool2d(x, 3, 2, 1)",
       .bench = true},
      {.name = "bench_volume",
       .graph = R"(
graph max_pool_bench_volume
input x f32[1, 64, 32, 32, 32]
pool: y = max_pool(x)
output y
)",
       .torch = "F.max_pool3d(x, 2)",
       .bench = true},
  };
}

}  // namespace outsize
