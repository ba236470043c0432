#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_batch_norm() {
  return {
      {.name = "basic",
       .graph = R"(
graph batch_norm_basic
input x f32[2, 11, 9, 7]
param gamma f32[11] init=uniform:1
param beta f32[11] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta)
output y
)",
       .torch = "F.batch_norm(x, None, None, gamma, beta, training=True)"},
      {.name = "relu",
       .graph = R"(
graph batch_norm_relu
input x f32[3, 16, 6, 8]
param gamma f32[16] init=uniform:1
param beta f32[16] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats) eps=0.01
apply: y = batch_norm_apply(x, moments, gamma, beta) activation=relu
output y
)",
       .torch = "F.relu(F.batch_norm(x, None, None, gamma, beta, training=True, eps=0.01))"},
      {.name = "relu_few_channels",
       .graph = R"(
graph batch_norm_relu_few_channels
input x f32[2, 3, 5, 7]
param gamma f32[3] init=uniform:1
param beta f32[3] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta) activation=relu
output y
)",
       .torch = "F.relu(F.batch_norm(x, None, None, gamma, beta, training=True))"},
      // The parts of y's gradient are added, and x says of the sum what the relu lets through.
      {.name = "relu_read_twice",
       .graph = R"(
graph batch_norm_relu_read_twice
input x f32[2, 9, 4, 5]
param gamma f32[9] init=uniform:1
param beta f32[9] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta) activation=relu
tanh: t = tanh(y)
add: z = add(y, t)
output z
)",
       .torch = "(lambda y: y + torch.tanh(y))(F.relu(F.batch_norm(x, None, None, gamma, beta, training=True)))"},
      {.name = "residual_relu",
       .graph = R"(
graph batch_norm_residual_relu
input x f32[2, 5, 7, 6]
input residual f32[2, 5, 7, 6]
param gamma f32[5] init=uniform:1
param beta f32[5] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta, residual) activation=relu
output y
)",
       .torch = "F.relu(residual + F.batch_norm(x, None, None, gamma, beta, training=True))"},
      // Two ops read y, so that the sum of its gradient's parts is the gradient of the relu too.
      {.name = "residual_relu_read_twice",
       .graph = R"(
graph batch_norm_residual_relu_read_twice
input x f32[2, 9, 4, 5]
input residual f32[2, 9, 4, 5]
param gamma f32[9] init=uniform:1
param beta f32[9] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta, residual) activation=relu
tanh: t = tanh(y)
add: z = add(y, t)
output z
)",
       .torch = "(lambda y: y + torch.tanh(y))(F.relu(residual + F.batch_norm(x, None, None, gamma, beta, training=True)))"},
      {.name = "residual",
       .graph = R"(
graph batch_norm_residual
input x f32[1, 24, 5, 5]
input residual f32[1, 24, 5, 5]
param gamma f32[24] init=uniform:1
param beta f32[24] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta, residual)
output y
)",
       .torch = "residual + F.batch_norm(x, None, None, gamma, beta, training=True)"},
      // What fusion makes one op of: the norm, the other branch as its residual, and the activation.
      {.name = "then_add_relu",
       .graph = R"(
graph batch_norm_then_add_relu
input x f32[2, 5, 7, 6]
input branch f32[2, 5, 7, 6]
param gamma f32[5] init=uniform:1
param beta f32[5] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: normalized = batch_norm_apply(x, moments, gamma, beta)
add: sum = add(branch, normalized)
relu: y = relu(sum)
output y
)",
       .torch = "F.relu(branch + F.batch_norm(x, None, None, gamma, beta, training=True))"},
      // The sum reads the norm twice, so that no other branch is there to be the residual.
      {.name = "then_add_itself",
       .graph = R"(
graph batch_norm_then_add_itself
input x f32[2, 5, 4, 3]
param gamma f32[5] init=uniform:1
param beta f32[5] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: normalized = batch_norm_apply(x, moments, gamma, beta)
add: sum = add(normalized, normalized)
relu: y = relu(sum)
output y
)",
       .torch = "F.relu(2 * F.batch_norm(x, None, None, gamma, beta, training=True))"},
      {.name = "volume",
       .graph = R"(
graph batch_norm_volume
input x f32[2, 11, 3, 4, 5]
param gamma f32[11] init=uniform:1
param beta f32[11] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta)
output y
)",
       .torch = "F.batch_norm(x, None, None, gamma, beta, training=True)"},
      {.name = "volume_relu",
       .graph = R"(
graph batch_norm_volume_relu
input x f32[2, 11, 3, 4, 5]
param gamma f32[11] init=uniform:1
param beta f32[11] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta) activation=relu
output y
)",
       .torch = "F.relu(F.batch_norm(x, None, None, gamma, beta, training=True))"},
      // As then_add_relu, of three spatial dimensions.
      {.name = "volume_then_add_relu",
       .graph = R"(
graph batch_norm_volume_then_add_relu
input x f32[2, 5, 2, 4, 3]
input branch f32[2, 5, 2, 4, 3]
param gamma f32[5] init=uniform:1
param beta f32[5] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: normalized = batch_norm_apply(x, moments, gamma, beta)
add: sum = add(branch, normalized)
relu: y = relu(sum)
output y
)",
       .torch = "F.relu(branch + F.batch_norm(x, None, None, gamma, beta, training=True))"},
      {.name = "running",
       .graph = R"(
graph batch_norm_running
input x f32[4, 6, 5, 3]
param gamma f32[6] init=uniform:1
param beta f32[6] init=uniform:1
state running_mean f32[6] init=zeros
state running_var f32[6] init=ones
stats: stats = batch_norm_stats(x)
update: running_mean.next, running_var.next = batch_norm_update(running_mean, running_var, stats) momentum=0.3
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta)
output y
)",
       .torch = "F.batch_norm(x, None, None, gamma, beta, training=True)"},
      {.name = "evaluated",
       .graph = R"(
graph batch_norm_evaluated
input x f32[2, 5, 3, 4]
input mean f32[5]
input var f32[5]
param gamma f32[5] init=uniform:1
param beta f32[5] init=uniform:1
running: moments = batch_norm_running(mean, var) eps=0.01
apply: y = batch_norm_apply(x, moments, gamma, beta)
output y
)",
       .differentiate = false,
       .torch = "F.batch_norm(x, mean, var, gamma, beta, training=False, eps=0.01)",
       .positive = {"var"}},
      {.name = "bench",
       .graph = R"(
graph batch_norm_bench
input x f32[8, 256, 56, 56]
param gamma f32[256] init=uniform:1
param beta f32[256] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta)
output y
)",
       .torch = "F.batch_norm(x, None, None, gamma, beta, training=True)",
       .bench = true},
      {.name = "bench_volume",
       .graph = R"(
graph batch_norm_bench_volume
input x f32[1, 32, 64, 64, 64]
param gamma f32[32] init=uniform:1
param beta f32[32] init=uniform:1
stats: stats = batch_norm_stats(x)
finalize: moments = batch_norm_finalize(stats)
apply: y = batch_norm_apply(x, moments, gamma, beta)
output y
)",
       .torch = "F.batch_norm(x, None, None, gamma, beta, training=True)",
       .bench = true},
  };
}

}  // namespace outsize
