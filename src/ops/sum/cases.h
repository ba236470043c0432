#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_sum() {
  return {
      {.name = "all",
       .graph = R"(
graph sum_all
input x f32[6, 37]
sum: y = sum(x)
output y
)",
       .torch = "x.sum((0, 1)).reshape(1)"},
      {.name = "last",
       .graph = R"(
graph sum_last
input x f32[4, 5, 9]
sum: y = sum(x) axes=[2]
output y
)",
       .torch = "x.sum((2,))"},
      {.name = "middle_kept",
       .graph = R"(
graph sum_middle_kept
input x f32[4, 5, 9]
sum: y = sum(x) axes=[1] keep_dims=1
output y
)",
       .torch = "x.sum((1,), keepdim=True)"},
      {.name = "rows",
       .graph = R"(
graph sum_rows
input x f32[4, 5, 9]
sum: y = sum(x) axes=[0]
output y
)",
       .torch = "x.sum((0,))"},
      {.name = "space",
       .graph = R"(
graph sum_space
input x f32[3, 13, 4, 5]
sum: y = sum(x) axes=[2, 3]
output y
)",
       .torch = "x.sum((2, 3))"},
      {.name = "space_kept",
       .graph = R"(
graph sum_space_kept
input x f32[3, 13, 4, 5]
sum: y = sum(x) axes=[2, 3] keep_dims=1
output y
)",
       .torch = "x.sum((2, 3), keepdim=True)"},
      {.name = "channels",
       .graph = R"(
graph sum_channels
input x f32[3, 13, 4, 5]
sum: y = sum(x) axes=[1]
output y
)",
       .torch = "x.sum((1,))"},
      {.name = "channels_kept",
       .graph = R"(
graph sum_channels_kept
input x f32[3, 13, 4, 5]
sum: y = sum(x) axes=[1] keep_dims=1
output y
)",
       .torch = "x.sum((1,), keepdim=True)"},
      {.name = "width",
       .graph = R"(
graph sum_width
input x f32[3, 13, 4, 5]
sum: y = sum(x) axes=[3]
output y
)",
       .torch = "x.sum((3,))"},
      {.name = "map",
       .graph = R"(
graph sum_map
input x f32[3, 13, 4, 5]
sum: y = sum(x)
output y
)",
       .torch = "x.sum((0, 1, 2, 3)).reshape(1)"},
      {.name = "per_channel",
       .graph = R"(
graph sum_per_channel
input x f32[3, 13, 4, 5]
sum: y = sum(x) axes=[0, 2, 3]
output y
)",
       .torch = "x.sum((0, 2, 3))"},
      {.name = "tokens",
       .graph = R"(
graph sum_tokens
input x f32[3, 7, 10]
sum: y = sum(x) axes=[1]
output y
)",
       .torch = "x.sum((1,))"},
      {.name = "mean_all",
       .graph = R"(
graph mean_mean_all
input x f32[6, 37]
mean: y = mean(x)
output y
)",
       .torch = "x.mean((0, 1)).reshape(1)"},
      {.name = "mean_last",
       .graph = R"(
graph mean_mean_last
input x f32[4, 5, 9]
mean: y = mean(x) axes=[2]
output y
)",
       .torch = "x.mean((2,))"},
      {.name = "mean_middle_kept",
       .graph = R"(
graph mean_mean_middle_kept
input x f32[4, 5, 9]
mean: y = mean(x) axes=[1] keep_dims=1
output y
)",
       .torch = "x.mean((1,), keepdim=True)"},
      {.name = "mean_rows",
       .graph = R"(
graph mean_mean_rows
input x f32[4, 5, 9]
mean: y = mean(x) axes=[0]
output y
)",
       .torch = "x.mean((0,))"},
      {.name = "mean_space",
       .graph = R"(
graph mean_mean_space
input x f32[3, 13, 4, 5]
mean: y = mean(x) axes=[2, 3]
output y
)",
       .torch = "x.mean((2, 3))"},
      {.name = "mean_space_kept",
       .graph = R"(
graph mean_mean_space_kept
input x f32[3, 13, 4, 5]
mean: y = mean(x) axes=[2, 3] keep_dims=1
output y
)",
       .torch = "x.mean((2, 3), keepdim=True)"},
      {.name = "mean_channels",
       .graph = R"(
graph mean_mean_channels
input x f32[3, 13, 4, 5]
mean: y = mean(x) axes=[1]
output y
)",
       .torch = "x.mean((1,))"},
      {.name = "mean_volume",
       .graph = R"(
graph mean_mean_volume
input x f32[2, 11, 2, 3, 4]
mean: y = mean(x) axes=[2, 3, 4]
output y
)",
       .torch = "x.mean((2, 3, 4))"},
      {.name = "mean_volume_kept",
       .graph = R"(
graph mean_mean_volume_kept
input x f32[2, 11, 2, 3, 4]
mean: y = mean(x) axes=[2, 3, 4] keep_dims=1
output y
)",
       .torch = "x.mean((2, 3, 4), keepdim=True)"},
      {.name = "mean_samples_and_width",
       .graph = R"(
graph mean_mean_samples_and_width
input x f32[3, 13, 4, 5]
mean: y = mean(x) axes=[0, 3] keep_dims=1
output y
)",
       .torch = "x.mean((0, 3), keepdim=True)"},
      {.name = "channels_and_width",
       .graph = R"(
graph sum_channels_and_width
input x f32[3, 12, 4, 5]
sum: y = sum(x) axes=[1, 3]
output y
)",
       .torch = "x.sum((1, 3))"},
      {.name = "samples",
       .graph = R"(
graph sum_samples
input x f32[5, 3, 4, 6]
sum: y = sum(x) axes=[0]
output y
)",
       .torch = "x.sum((0,))"},
      {.name = "alternating",
       .graph = R"(
graph sum_alternating
input x f32[2, 3, 4, 3, 2, 4]
sum: y = sum(x) axes=[1, 3, 5]
output y
)",
       .torch = "x.sum((1, 3, 5))"},
      {.name = "few_wide_rows",
       .graph = R"(
graph sum_few_wide_rows
input x f32[2, 3, 1100]
sum: y = sum(x) axes=[1]
output y
)",
       .differentiate = false,
       .torch = "x.sum((1,))"},
      // So many terms that a thread of a card has several runs of them.
      {.name = "long",
       .graph = R"(
graph sum_long
input x f32[3, 137, 1001]
sum: y = sum(x)
output y
)",
       .differentiate = false,
       .torch = "x.sum().reshape(1)"},
      {.name = "long_columns",
       .graph = R"(
graph sum_long_columns
input x f32[5, 25001, 3]
sum: y = sum(x) axes=[0, 1]
output y
)",
       .differentiate = false,
       .torch = "x.sum((0, 1))"},
      {.name = "bench_all",
       .graph = R"(
graph sum_bench_all
input x f32[8, 512, 3072]
sum: y = sum(x)
output y
)",
       .torch = "x.sum((0, 1, 2)).reshape(1)",
       .bench = true},
      {.name = "bench_last",
       .graph = R"(
graph mean_bench_last
input x f32[8, 512, 768]
mean: y = mean(x) axes=[2] keep_dims=1
output y
)",
       .torch = "x.mean((2,), keepdim=True)",
       .bench = true},
      {.name = "bench_space",
       .graph = R"(
graph mean_bench_space
input x f32[8, 256, 56, 56]
mean: y = mean(x) axes=[2, 3]
output y
)",
       .torch = "x.mean((2, 3))",
       .bench = true},
  };
}

}  // namespace outsize
