#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_silu() {
  return {
      {.name = "map",
       .graph = R"(
graph silu_map
input x f32[2, 11, 9, 7]
silu: y = silu(x)
output y
)",
       .torch = "F.silu(x)"},
      {.name = "volume",
       .graph = R"(
graph silu_volume
input x f32[2, 9, 2, 3, 4]
silu: y = silu(x)
output y
)",
       .torch = "F.silu(x)"},
      {.name = "plain",
       .graph = R"(
graph silu_plain
input x f32[6, 37]
silu: y = silu(x)
output y
)",
       .torch = "F.silu(x)"},
      {.name = "bench",
       .graph = R"(
graph silu_bench
input x f32[8, 512, 3072]
silu: y = silu(x)
output y
)",
       .torch = "F.silu(x)",
       .bench = true},
  };
}

}  // namespace outsize
