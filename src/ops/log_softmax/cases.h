#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_log_softmax() {
  return {
      {"rows", R"(
graph log_softmax_rows
input x f32[5, 3, 37]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"middle_axis", R"(
graph log_softmax_middle_axis
input x f32.plain[4, 9, 5, 3]
soft: y = log_softmax(x) axis=-3
output y
)",
       2, true, "x.log_softmax(1)"},
      {"first_axis", R"(
graph log_softmax_first_axis
input x f32[7, 90]
soft: y = log_softmax(x) axis=0
output y
)",
       2, true, "x.log_softmax(0)"},
      {"channels", R"(
graph log_softmax_channels
input x f32[2, 21, 5, 3]
soft: y = log_softmax(x) axis=1
output y
)",
       2, true, "x.log_softmax(1)"},
      {"few_channels", R"(
graph log_softmax_few_channels
input x f32[2, 4, 9, 7]
soft: y = log_softmax(x) axis=1
output y
)",
       2, true, "x.log_softmax(1)"},
      {"space", R"(
graph log_softmax_space
input x f32[2, 11, 9, 3]
soft: y = log_softmax(x) axis=2
output y
)",
       2, true, "x.log_softmax(2)"},
      {"one", R"(
graph log_softmax_one
input x f32[6, 1]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"three", R"(
graph log_softmax_three
input x f32[301, 3]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"seven", R"(
graph log_softmax_seven
input x f32[50, 7]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"thousand", R"(
graph log_softmax_thousand
input x f32[4, 1000]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"long", R"(
graph log_softmax_long
input x f32[2, 5003]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"longer", R"(
graph log_softmax_longer
input x f32[2, 8200]
soft: y = log_softmax(x)
output y
)",
       2, true, "x.log_softmax(-1)"},
      {"long_lines", R"(
graph log_softmax_long_lines
input x f32[130, 3]
soft: y = log_softmax(x) axis=0
output y
)",
       2, true, "x.log_softmax(0)"},
      {.name = "scores",
       .graph = R"(
graph log_softmax_scores
input x f32[48, 512, 512]
soft: y = log_softmax(x)
output y
)",
       .torch = "x.log_softmax(-1)",
       .bench = true},
      {.name = "classes",
       .graph = R"(
graph log_softmax_classes
input x f32[2, 21, 256, 256]
soft: y = log_softmax(x) axis=1
output y
)",
       .torch = "x.log_softmax(1)",
       .bench = true},
  };
}

}  // namespace outsize
