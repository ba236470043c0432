#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_gelu() {
  return {
      {.name = "map",
       .graph = R"(
graph gelu_map
input x f32[2, 11, 9, 7]
gelu: y = gelu(x)
output y
)",
       .torch = "F.gelu(x)"},
      {.name = "volume",
       .graph = R"(
graph gelu_volume
input x f32[2, 9, 2, 3, 4]
gelu: y = gelu(x)
output y
)",
       .torch = "F.gelu(x)"},
      {.name = "plain",
       .graph = R"(
graph gelu_plain
input x f32[6, 37]
gelu: y = gelu(x)
output y
)",
       .torch = "F.gelu(x)"},
      {.name = "tanh_map",
       .graph = R"(
graph gelu_tanh_map
input x f32[2, 11, 9, 7]
gelu: y = gelu(x) approximate=tanh
output y
)",
       .torch = "F.gelu(x, approximate='tanh')"},
      {.name = "tanh_plain",
       .graph = R"(
graph gelu_tanh_plain
input x f32[6, 37]
gelu: y = gelu(x) approximate=tanh
output y
)",
       .torch = "F.gelu(x, approximate='tanh')"},
      {.name = "bench_tanh",
       .graph = R"(
graph gelu_bench_tanh
input x f32[8, 512, 3072]
gelu: y = gelu(x) approximate=tanh
output y
)",
       .torch = "F.gelu(x, approximate='tanh')",
       .bench = true},
      {.name = "bench",
       .graph = R"(
graph gelu_bench
input x f32[8, 512, 3072]
gelu: y = gelu(x)
output y
)",
       .torch = "F.gelu(x)",
       .bench = true},
  };
}

}  // namespace outsize
