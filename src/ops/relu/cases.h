#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_relu() {
  return {
      {"map", R"(
graph relu_map
input x f32[2, 11, 9, 7]
relu: y = relu(x)
output y
)"},
      {"plain", R"(
graph relu_plain
input x f32[6, 37]
relu: y = relu(x)
output y
)"},
      // Two ops read y, so that the sum of its gradient's parts is the gradient of the relu too.
      {.name = "read_twice",
       .graph = R"(
graph relu_read_twice
input x f32[2, 11, 9, 7]
relu: y = relu(x)
tanh: t = tanh(y)
add: z = add(y, t)
output z
)",
       .torch = "F.relu(x) + torch.tanh(F.relu(x))"},
      // One op reads y twice and another once more: of three parts, the two that the first op gives make two such sums.
      {.name = "read_three_times",
       .graph = R"(
graph relu_read_three_times
input x f32[5, 13]
relu: y = relu(x)
square: s = mul(y, y)
add: z = add(s, y)
output z
)",
       .torch = "F.relu(x) ** 2 + F.relu(x)"},
  };
}

}  // namespace outsize
