#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_softmax() {
  return {
      {"rows", R"(
graph softmax_rows
input x f32[5, 3, 37]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"middle_axis", R"(
graph softmax_middle_axis
input x f32.plain[4, 9, 5, 3]
soft: y = softmax(x) axis=-3
output y
)",
       2, true, "x.softmax(1)"},
      {"first_axis", R"(
graph softmax_first_axis
input x f32[7, 90]
soft: y = softmax(x) axis=0
output y
)",
       2, true, "x.softmax(0)"},
      {"channels", R"(
graph softmax_channels
input x f32[2, 21, 5, 3]
soft: y = softmax(x) axis=1
output y
)",
       2, true, "x.softmax(1)"},
      {"few_channels", R"(
graph softmax_few_channels
input x f32[2, 4, 9, 7]
soft: y = softmax(x) axis=1
output y
)",
       2, true, "x.softmax(1)"},
      {"space", R"(
graph softmax_space
input x f32[2, 11, 9, 3]
soft: y = softmax(x) axis=2
output y
)",
       2, true, "x.softmax(2)"},
      {"one", R"(
graph softmax_one
input x f32[6, 1]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"three", R"(
graph softmax_three
input x f32[301, 3]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"seven", R"(
graph softmax_seven
input x f32[50, 7]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"thousand", R"(
graph softmax_thousand
input x f32[4, 1000]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"long", R"(
graph softmax_long
input x f32[2, 5003]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"longer", R"(
graph softmax_longer
input x f32[2, 8200]
soft: y = softmax(x)
output y
)",
       2, true, "x.softmax(-1)"},
      {"long_lines", R"(
graph softmax_long_lines
input x f32[130, 3]
soft: y = softmax(x) axis=0
output y
)",
       2, true, "x.softmax(0)"},
      {.name = "scores",
       .graph = R"(
graph softmax_scores
input x f32[48, 512, 512]
soft: y = softmax(x)
output y
)",
       .torch = "x.softmax(-1)",
       .bench = true},
      {.name = "classes",
       .graph = R"(
graph softmax_classes
input x f32[2, 21, 256, 256]
soft: y = softmax(x) axis=1
output y
)",
       .torch = "x.softmax(1)",
       .bench = true},
  };
}

}  // namespace outsize
