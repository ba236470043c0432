#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_sigmoid() {
  return {
      {.name = "map",
       .graph = R"(
graph sigmoid_map
input x f32[2, 11, 9, 7]
sigmoid: y = sigmoid(x)
output y
)",
       .torch = "torch.sigmoid(x)"},
      {.name = "volume",
       .graph = R"(
graph sigmoid_volume
input x f32[2, 9, 2, 3, 4]
sigmoid: y = sigmoid(x)
output y
)",
       .torch = "torch.sigmoid(x)"},
      {.name = "plain",
       .graph = R"(
graph sigmoid_plain
input x f32[6, 37]
sigmoid: y = sigmoid(x)
output y
)",
       .torch = "torch.sigmoid(x)"},
      {.name = "bench",
       .graph = R"(
graph sigmoid_bench
input x f32[8, 512, 3072]
sigmoid: y = sigmoid(x)
output y
)",
       .torch = "torch.sigmoid(x)",
       .bench = true},
  };
}

}  // namespace outsize
