#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_clip() {
  // More sums than one block of a card takes.
  std::vector<std::string> names;
  std::string many = "\ngraph clip_many\n", list;
  for (int i = 0; i < 260; ++i) {
    names.push_back("sum" + std::to_string(i));
    many += "input " + names.back() + " f32[1]\n";
    list += (i > 0 ? ", " : "") + names.back();
  }
  many += "factor: factor = clip_factor(" + list + ") max_norm=2.5\noutput factor\n";
  return {
      {"two", R"(
graph clip_two
input a f32[7, 33]
input b f32[2, 11, 5, 3]
square_a: sum_a = square_sum(a)
square_b: sum_b = square_sum(b)
factor: factor = clip_factor(sum_a, sum_b) max_norm=2.5
output factor
)",
       2, false, "2.5 / (torch.linalg.vector_norm(torch.cat([a.flatten(), b.flatten()])) + 1e-6).reshape(1)"},
      {"short_enough", R"(
graph clip_short_enough
input a f32[5]
square: sum = square_sum(a)
factor: factor = clip_factor(sum) max_norm=100.0
output factor
)",
       2, false, "torch.ones_like(a[:1])"},
      {"volume", R"(
graph clip_volume
input a f32[2, 3, 4, 5, 6]
square: sum = square_sum(a)
output sum
)",
       2, false, "a.square().sum().reshape(1)"},
      // So many terms that a thread of a card has several runs of them.
      {"long", R"(
graph clip_long
input a f32[300001]
square: sum = square_sum(a)
output sum
)",
       2, false, "a.square().sum().reshape(1)"},
      {.name = "many",
       .graph = many,
       .differentiate = false,
       .torch = "(2.5 / (torch.cat([" + list + "]).sum().sqrt() + 1e-6)).clamp(max=1)",
       .positive = names},
      {"bench", R"(
graph clip_bench
input a f32[4096, 4096]
square: sum = square_sum(a)
output sum
)",
       2, false, "torch.linalg.vector_norm(a).square().reshape(1)", true},
  };
}

}  // namespace outsize
