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
)",
       2, true, "F.linear(x, weight)"},
      {"bias", R"(
graph linear_bias
input x f32[3, 10]
param weight f32[4, 10] init=normal:0.3
param bias f32[4] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       2, true, "F.linear(x, weight, bias)"},
      {"blocks", R"(
graph linear_blocks
input x f32[3, 16]
param weight f32[32, 16] init=normal:0.3
param bias f32[32] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       2, true, "F.linear(x, weight, bias)"},
      {"one_output", R"(
graph linear_one_output
input x f32[4, 9]
param weight f32[1, 9] init=normal:0.3
param bias f32[1] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       2, true, "F.linear(x, weight, bias)"},
      {"three_dims", R"(
graph linear_three_dims
input x f32[3, 5, 12]
param weight f32[9, 12] init=normal:0.3
param bias f32[9] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       2, true, "F.linear(x, weight, bias)"},
      {"rows_of_18", R"(
graph linear_rows_of_18
input x f32[9, 16]
param weight f32[18, 16] init=normal:0.3
param bias f32[18] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       2, true, "F.linear(x, weight, bias)"},
      {"inputs_first", R"(
graph linear_inputs_first
input x f32[4, 3, 11]
param weight f32[11, 18] init=normal:0.3
param bias f32[18] init=normal:0.3
fc: y = linear(x, weight, bias) weight=io
output y
)",
       2, true, "x @ weight + bias"},
      {"inputs_first_few_rows", R"(
graph linear_inputs_first_few_rows
input x f32[2, 13]
param weight f32[13, 19] init=normal:0.3
param bias f32[19] init=normal:0.3
fc: y = linear(x, weight, bias) weight=io
output y
)",
       2, true, "x @ weight + bias"},
      {.name = "large",
       .graph = R"(
graph linear_large
input x f32[6, 200]
param weight f32[77, 200] init=normal:0.3
param bias f32[77] init=normal:0.3
fc: y = linear(x, weight, bias)
output y
)",
       .differentiate = false,
       .torch = "F.linear(x, weight, bias)"},
      {.name = "transformer",
       .graph = R"(
graph linear_transformer
input x f32[4, 128, 768]
param weight f32[3072, 768] init=normal:0.02
param bias f32[3072] init=normal:0.02
fc: y = linear(x, weight, bias)
output y
)",
       .torch = "F.linear(x, weight, bias)",
       .bench = true},
  };
}

}  // namespace outsize
