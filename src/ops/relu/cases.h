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
  };
}

}  // namespace outsize
