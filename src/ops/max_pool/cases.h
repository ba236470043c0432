#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_max_pool() {
  return {
      {"two", R"(
graph max_pool_two
input x f32[2, 3, 6, 4]
pool: y = max_pool(x)
output y
)"},
      // The pooling of a ResNet stem, over an odd and an even extent.
      {"overlapping", R"(
graph max_pool_overlapping
input x f32[1, 5, 7, 6]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)"},
      {"asymmetric", R"(
graph max_pool_asymmetric
input x f32[3, 2, 6, 7]
pool: y = max_pool(x) kernel=[3, 2] stride=[1, 2] padding=[1, 0, 0, 1]
output y
)"},
      // Every element is in up to nine windows.
      {"dense", R"(
graph max_pool_dense
input x f32[1, 3, 5, 5]
pool: y = max_pool(x) kernel=[3, 3] stride=[1, 1] padding=[1, 1, 1, 1]
output y
)"},
      // Some inputs are in no window.
      {"gaps", R"(
graph max_pool_gaps
input x f32[1, 3, 8, 9]
pool: y = max_pool(x) kernel=[2, 2] stride=[3, 3]
output y
)"},
      // The last row and column are in no window.
      {"leftover", R"(
graph max_pool_leftover
input x f32[2, 3, 5, 7]
pool: y = max_pool(x)
output y
)"},
      {"relu", R"(
graph max_pool_relu
input x f32[2, 3, 6, 6]
pool: y = max_pool(x) activation=relu
output y
)"},
      {"relu_overlapping", R"(
graph max_pool_relu_overlapping
input x f32[1, 16, 6, 5]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1] activation=relu
output y
)"},
      // What fusion makes relu part of.
      {"after_relu", R"(
graph max_pool_after_relu
input x f32[3, 4, 4, 4]
relu: z = relu(x)
pool: y = max_pool(z)
output y
)"},
      {.name = "large",
       .graph = R"(
graph max_pool_large
input x f32[2, 32, 30, 26]
pool: y = max_pool(x) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
output y
)",
       .differentiate = false},
  };
}

}  // namespace outsize
