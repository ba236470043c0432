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
      // Whole vectors, along channels and along columns; and three channels in a row.
      {.name = "fours",
       .graph = R"(
graph concat_fours
input a f32[2, 4, 3, 5]
input b f32[2, 12, 3, 5]
cat: y = concat(a, b)
output y
)",
       .torch = "torch.cat((a, b), 1)"},
      {.name = "columns",
       .graph = R"(
graph concat_columns
input a f32[2, 8, 3, 5]
input b f32[2, 8, 3, 2]
cat: y = concat(a, b) axis=3
output y
)",
       .torch = "torch.cat((a, b), 3)"},
      {.name = "image_columns",
       .graph = R"(
graph concat_image_columns
input a f32[2, 3, 3, 5]
input b f32[2, 3, 3, 2]
cat: y = concat(a, b) axis=3
output y
)",
       .torch = "torch.cat((a, b), 3)"},
      {.name = "volume",
       .graph = R"(
graph concat_volume
input a f32[2, 3, 2, 3, 4]
input b f32[2, 9, 2, 3, 4]
cat: y = concat(a, b)
output y
)",
       .torch = "torch.cat((a, b), 1)"},
      {.name = "depth",
       .graph = R"(
graph concat_depth
input a f32[2, 3, 2, 3, 4]
input b f32[2, 3, 3, 3, 4]
cat: y = concat(a, b) axis=2
output y
)",
       .torch = "torch.cat((a, b), 2)"},
      {.name = "last",
       .graph = R"(
graph concat_last
input a f32[2, 3, 5]
input b f32[2, 3, 2]
cat: y = concat(a, b) axis=2
output y
)",
       .torch = "torch.cat((a, b), 2)"},
      {.name = "integers",
       .graph = R"(
graph concat_integers
input a i32[2, 5]
input b i32[2, 4]
cat: y = concat(a, b)
output y
)",
       .integer_limit = 1000,
       .differentiate = false,
       .torch = "torch.cat((a, b), 1)"},
      {.name = "split",
       .graph = R"(
graph split
input x f32[2, 19, 3, 4]
cut: a, b, c = split(x) sizes=[5, 6, 8]
mul: m = mul(a, a)
pad: p = pad(b) before=[0, 2, 0, 0] after=[0, 0, 0, 0]
add: s = add(c, p)
cat: y = concat(m, s)
output y
)",
       .torch = "torch.cat((x[:, :5] * x[:, :5], x[:, 11:] + F.pad(x[:, 5:11], (0, 0, 0, 0, 2, 0))), 1)"},
      {.name = "split_part_unused",
       .graph = R"(
graph split_part_unused
input x f32[3, 4, 10]
cut: a, b, c = split(x) axis=2 sizes=[5, 2, 3]
cat: y = concat(c, a) axis=2
output y
)",
       .torch = "torch.cat((x[..., 7:], x[..., :5]), 2)"},
      {.name = "bench",
       .graph = R"(
graph concat_bench
input a f32[8, 128, 56, 56]
input b f32[8, 32, 56, 56]
cat: y = concat(a, b)
output y
)",
       .torch = "torch.cat((a, b), 1)",
       .bench = true},
      {.name = "bench_ragged",
       .graph = R"(
graph concat_bench_ragged
input a f32[8, 100, 56, 56]
input b f32[8, 61, 56, 56]
cat: y = concat(a, b)
output y
)",
       .torch = "torch.cat((a, b), 1)",
       .bench = true},
  };
}

}  // namespace outsize
