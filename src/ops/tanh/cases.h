#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_tanh() {
  return {
      {.name = "map",
       .graph = R"(
graph tanh_map
input x f32[2, 11, 9, 7]
tanh: y = tanh(x)
output y
)",
       .torch = "torch.tanh(x)"},
      {.name = "volume",
       .graph = R"(
graph tanh_volume
input x f32[2, 9, 2, 3, 4]
tanh: y = tanh(x)
output y
)",
       .torch = "torch.tanh(x)"},
      {.name = "plain",
       .graph = R"(
graph tanh_plain
input x f32[6, 37]
tanh: y = tanh(x)
output y
)",
       .torch = "torch.tanh(x)"},
      {.name = "bench",
       .graph = R"(
graph tanh_bench
input x f32[8, 512, 3072]
tanh: y = tanh(x)
output y
)",
       .torch = "torch.tanh(x)",
       .bench = true},
  };
}

}  // namespace outsize
