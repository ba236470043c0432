#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_concat() {
  return {
      // Parts that start inside a channel block.
      {"three", R"(
graph concat_three
input a f32[2, 3, 4, 3]
input b f32[2, 8, 4, 3]
input c f32[2, 5, 4, 3]
cat: y = concat(a, b, c)
output y
)"},
      {"blocks", R"(
graph concat_blocks
input a f32[1, 16, 3, 3]
input b f32[1, 32, 3, 3]
cat: y = concat(a, b)
output y
)"},
      {"one", R"(
graph concat_one
input a f32[3, 5, 2, 3]
cat: y = concat(a)
output y
)"},
      {"rows", R"(
graph concat_rows
input a f32[2, 5, 2, 3]
input b f32[2, 5, 4, 3]
cat: y = concat(a, b) axis=2
output y
)"},
      {"samples", R"(
graph concat_samples
input a f32[1, 9, 2, 3]
input b f32[3, 9, 2, 3]
cat: y = concat(a, b) axis=0
output y
)"},
      {"plain", R"(
graph concat_plain
input a f32[3, 4]
input b f32[3, 7]
input c f32[3, 1]
cat: y = concat(a, b, c)
output y
)"},
      {"plain_rows", R"(
graph concat_plain_rows
input a f32[2, 5]
input b f32[4, 5]
cat: y = concat(a, b) axis=0
output y
)"},
      // One value in two places: its gradient is a sum.
      {"twice", R"(
graph concat_twice
input a f32[2, 3, 3, 4]
input b f32[2, 6, 3, 4]
cat: y = concat(a, b, a)
output y
)"},
      {.name = "large",
       .graph = R"(
graph concat_large
input a f32[2, 24, 14, 15]
input b f32[2, 16, 14, 15]
input c f32[2, 40, 14, 15]
cat: y = concat(a, b, c)
output y
)",
       .differentiate = false},
  };
}

}  // namespace outsize
