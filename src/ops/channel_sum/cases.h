#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_channel_sum() {
  return {
      {.name = "flat",
       .graph = R"(
graph channel_sum_flat
input x f32[3, 11, 9, 7]
sum: y = channel_sum(x)
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3))"},
      {.name = "deep",
       .graph = R"(
graph channel_sum_deep
input x f32[2, 16, 3, 5, 4]
sum: y = channel_sum(x)
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3, 4))"},
      {.name = "large",
       .graph = R"(
graph channel_sum_large
input x f32[1, 5, 90, 91]
sum: y = channel_sum(x)
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3))"},
      {.name = "three_channels",
       .graph = R"(
graph channel_sum_three_channels
input x f32[2, 3, 34, 36]
sum: y = channel_sum(x)
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3))"},
      {.name = "bench",
       .graph = R"(
graph channel_sum_bench
input x f32[1, 32, 64, 64, 64]
sum: y = channel_sum(x)
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 2, 3, 4))",
       .bench = true},
  };
}

}  // namespace outsize
