#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_add() {
  return {
      {"map", R"(
graph add_map
input a f32[2, 11, 9, 7]
input b f32[2, 11, 9, 7]
add: y = add(a, b)
output y
)"},
      {"plain", R"(
graph add_plain
input a f32[6, 37]
input b f32[6, 37]
add: y = add(a, b)
output y
)"},
      // Both gradients reach x, so that autodiff sums them with an add of its own.
      {"shared", R"(
graph add_shared
input x f32[2, 5, 6, 7]
relu: z = relu(x)
add: y = add(z, x)
output y
)"},
  };
}

}  // namespace outsize
