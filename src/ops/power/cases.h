#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_power() {
  return {
      {.name = "square",
       .graph = R"(
graph power_square
input x f32[2, 11, 5, 3]
power: y = power(x) exponent=2
output y
)",
       .torch = "torch.pow(x, 2)"},
      {.name = "cube",
       .graph = R"(
graph power_cube
input x f32[6, 37]
power: y = power(x) exponent=3
output y
)",
       .torch = "torch.pow(x, 3)"},
      {.name = "one",
       .graph = R"(
graph power_one
input x f32[6, 7]
power: y = power(x) exponent=1
output y
)",
       .torch = "torch.pow(x, 1)"},
      {.name = "zero",
       .graph = R"(
graph power_zero
input x f32[2, 5, 3, 2]
power: y = power(x) exponent=0
output y
)",
       .torch = "torch.pow(x, 0)"},
      {.name = "root",
       .graph = R"(
graph power_root
input x f32[2, 11, 5, 3]
squash: p = sigmoid(x)
power: y = power(p) exponent=0.5
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), 0.5)"},
      {.name = "inverse_root",
       .graph = R"(
graph power_inverse_root
input x f32[2, 11, 5, 3]
squash: p = sigmoid(x)
power: y = power(p) exponent=-0.5
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), -0.5)"},
      {.name = "inverse",
       .graph = R"(
graph power_inverse
input x f32[2, 11, 2, 3, 4]
squash: p = sigmoid(x)
power: y = power(p) exponent=-1
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), -1)"},
      {.name = "inverse_square",
       .graph = R"(
graph power_inverse_square
input x f32[6, 37]
squash: p = sigmoid(x)
power: y = power(p) exponent=-2
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), -2)"},
      {.name = "fraction",
       .graph = R"(
graph power_fraction
input x f32[2, 11, 5, 3]
squash: p = sigmoid(x)
power: y = power(p) exponent=2.3
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), 2.3)"},
      {.name = "inverse_fraction",
       .graph = R"(
graph power_inverse_fraction
input x f32[6, 37]
squash: p = sigmoid(x)
power: y = power(p) exponent=-1.7
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), -1.7)"},
      {.name = "odd",
       .graph = R"(
graph power_odd
input x f32[6, 37]
power: y = power(x) exponent=5
output y
)",
       .torch = "torch.pow(x, 5)"},
      {.name = "even",
       .graph = R"(
graph power_even
input x f32[6, 37]
power: y = power(x) exponent=6
output y
)",
       .torch = "torch.pow(x, 6)"},
      {.name = "inverse_odd",
       .graph = R"(
graph power_inverse_odd
input x f32[6, 37]
squash: p = sigmoid(x)
power: y = power(p) exponent=-3
output y
)",
       .torch = "torch.pow(torch.sigmoid(x), -3)"},
      {.name = "bench_square",
       .graph = R"(
graph power_bench_square
input x f32[8, 512, 768]
power: y = power(x) exponent=2
output y
)",
       .torch = "torch.pow(x, 2)",
       .bench = true},
      {.name = "bench_fraction",
       .graph = R"(
graph power_bench_fraction
input x f32[8, 512, 768]
power: y = power(x) exponent=2.3
output y
)",
       .torch = "torch.pow(x, 2.3)",
       .bench = true},
  };
}

}  // namespace outsize
