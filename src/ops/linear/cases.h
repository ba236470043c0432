#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_linear() {
  return {
      {"one_row", R"(
graph linear_one_row
input x f32[1, 7]
param weight f32[5, 7] init=normal:0.3
fc: y = linear(x, weight)
output y
)"},
      {"bias", R"(
graph linear_bias
input x f32[3, 10]
param weight f32[4, 10] init=normal:0.3
param bias f32[4] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)"},
      {"blocks", R"(
graph linear_blocks
input x f32[3, 16]
param weight f32[32, 16] init=normal:0.3
param bias f32[32] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)"},
      {"one_output", R"(
graph linear_one_output
input x f32[4, 9]
param weight f32[1, 9] init=normal:0.3
param bias f32[1] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)"},
      {.name = "large",
       .graph = R"(
graph linear_large
input x f32[6, 200]
param weight f32[77, 200] init=normal:0.3
param bias f32[77] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       .differentiate = false},
  };
}

}  // namespace outsize
