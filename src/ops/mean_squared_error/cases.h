#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_mean_squared_error() {
  return {
      {"plain", R"(
graph mean_squared_error_plain
input x f32[5, 13]
input target f32[5, 13]
loss: loss = mean_squared_error(x, target)
output loss
)"},
      {"map", R"(
graph mean_squared_error_map
input x f32[2, 11, 6, 7]
input target f32[2, 11, 6, 7]
loss: loss = mean_squared_error(x, target)
output loss
)"},
  };
}

}  // namespace outsize
