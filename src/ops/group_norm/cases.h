#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_group_norm() {
  return {
      // Groups within a block of channels, and across two.
      {.name = "basic",
       .graph = R"(
graph group_norm_basic
input x f32[2, 12, 5, 7]
param gamma f32[12] init=uniform:1
param beta f32[12] init=uniform:1
stats: stats = group_norm_stats(x) groups=3
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta) groups=3
output y
)",
       .torch = "F.group_norm(x, 3, gamma, beta)"},
      {.name = "one_group",
       .graph = R"(
graph group_norm_one_group
input x f32[3, 11, 4, 3]
param gamma f32[11] init=uniform:1
param beta f32[11] init=uniform:1
stats: stats = group_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta)
output y
)",
       .torch = "F.group_norm(x, 1, gamma, beta)"},
      // Instance norm.
      {.name = "instance",
       .graph = R"(
graph group_norm_instance
input x f32[2, 5, 6, 4]
stats: stats = group_norm_stats(x) groups=5
finalize: moments = batch_norm_finalize(stats) eps=0.01
apply: y = group_norm_apply(x, moments) groups=5
output y
)",
       .torch = "F.instance_norm(x, eps=0.01)"},
      {.name = "scale_only",
       .graph = R"(
graph group_norm_scale_only
input x f32[2, 16, 3, 5]
param gamma f32[16] init=uniform:1
stats: stats = group_norm_stats(x) groups=2
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma) groups=2
output y
)",
       .torch = "F.group_norm(x, 2, gamma)"},
      {.name = "relu",
       .graph = R"(
graph group_norm_relu
input x f32[2, 24, 4, 5]
param gamma f32[24] init=uniform:1
param beta f32[24] init=uniform:1
stats: stats = group_norm_stats(x) groups=4
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta) groups=4 activation=relu
output y
)",
       .torch = "F.relu(F.group_norm(x, 4, gamma, beta))"},
      // What fusion makes one op of.
      {.name = "then_relu",
       .graph = R"(
graph group_norm_then_relu
input x f32[2, 6, 4, 5]
param gamma f32[6] init=uniform:1
param beta f32[6] init=uniform:1
stats: stats = group_norm_stats(x) groups=2
finalize: moments = batch_norm_finalize(stats)
apply: normalized = group_norm_apply(x, moments, gamma, beta) groups=2
relu: y = relu(normalized)
output y
)",
       .torch = "F.relu(F.group_norm(x, 2, gamma, beta))"},
      // Two ops read y, so that the sum of its gradient's parts is the gradient of the relu too.
      {.name = "relu_read_twice",
       .graph = R"(
graph group_norm_relu_read_twice
input x f32[2, 6, 4, 5]
param gamma f32[6] init=uniform:1
param beta f32[6] init=uniform:1
stats: stats = group_norm_stats(x) groups=2
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta) groups=2 activation=relu
tanh: t = tanh(y)
add: z = add(y, t)
output z
)",
       .torch = "(lambda y: y + torch.tanh(y))(F.relu(F.group_norm(x, 2, gamma, beta)))"},
      {.name = "volume",
       .graph = R"(
graph group_norm_volume
input x f32[2, 10, 3, 2, 5]
param gamma f32[10] init=uniform:1
param beta f32[10] init=uniform:1
stats: stats = group_norm_stats(x) groups=5
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta) groups=5
output y
)",
       .torch = "F.group_norm(x, 5, gamma, beta)"},
      // More channels a group than a block of a card has threads.
      {.name = "wide",
       .graph = R"(
graph group_norm_wide
input x f32[1, 300, 2, 1]
param gamma f32[300] init=uniform:1
stats: stats = group_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma)
output y
)",
       .torch = "F.group_norm(x, 1, gamma)"},
      // So many that their sums are worth a block of a card.
      {.name = "very_wide",
       .graph = R"(
graph group_norm_very_wide
input x f32[2, 1034, 2, 1]
param gamma f32[1034] init=uniform:1
param beta f32[1034] init=uniform:1
stats: stats = group_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta)
output y
)",
       .differentiate = false,
       .torch = "F.group_norm(x, 1, gamma, beta)"},
      {.name = "three_channels",
       .graph = R"(
graph group_norm_three_channels
input x f32[3, 3, 6, 10]
param gamma f32[3] init=uniform:1
param beta f32[3] init=uniform:1
stats: stats = group_norm_stats(x) groups=3
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta) groups=3 activation=relu
output y
)",
       .torch = "F.relu(F.group_norm(x, 3, gamma, beta))"},
      {.name = "bench",
       .graph = R"(
graph group_norm_bench
input x f32[8, 256, 56, 56]
param gamma f32[256] init=uniform:1
param beta f32[256] init=uniform:1
stats: stats = group_norm_stats(x) groups=32
finalize: moments = batch_norm_finalize(stats)
apply: y = group_norm_apply(x, moments, gamma, beta) groups=32
output y
)",
       .torch = "F.group_norm(x, 32, gamma, beta)",
       .bench = true},
  };
}

}  // namespace outsize
