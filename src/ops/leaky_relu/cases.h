#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_leaky_relu() {
  return {
      {.name = "map",
       .graph = R"(
graph leaky_relu_map
input x f32[2, 11, 9, 7]
leaky_relu: y = leaky_relu(x)
output y
)",
       .torch = "F.leaky_relu(x)"},
      {.name = "volume",
       .graph = R"(
graph leaky_relu_volume
input x f32[2, 9, 2, 3, 4]
leaky_relu: y = leaky_relu(x)
output y
)",
       .torch = "F.leaky_relu(x)"},
      {.name = "plain",
       .graph = R"(
graph leaky_relu_plain
input x f32[6, 37]
leaky_relu: y = leaky_relu(x)
output y
)",
       .torch = "F.leaky_relu(x)"},
      {.name = "slope",
       .graph = R"(
graph leaky_relu_slope
input x f32[6, 37]
leaky_relu: y = leaky_relu(x) slope=0.3
output y
)",
       .torch = "F.leaky_relu(x, 0.3)"},
      {.name = "zero_slope",
       .graph = R"(
graph leaky_relu_zero_slope
input x f32[1, 8, 5, 3]
leaky_relu: y = leaky_relu(x) slope=0
output y
)",
       .torch = "F.leaky_relu(x, 0.0)"},
      {.name = "bench",
       .graph = R"(
graph leaky_relu_bench
input x f32[8, 512, 3072]
leaky_relu: y = leaky_relu(x)
output y
)",
       .torch = "F.leaky_relu(x)",
       .bench = true},
  };
}

}  // namespace outsize
