#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_sgd() {
  return {
      {"plain", R"(
graph sgd_plain
param weight f32[9, 5, 3, 3] init=normal:1
input grad f32.plain[9, 5, 3, 3]
input lr f32[1]
sgd: weight.next = sgd(weight, grad, lr)
output weight.next
)",
       2, false, "weight - lr * grad"},
      {"momentum", R"(
graph sgd_momentum
param weight f32[37] init=normal:1
state buffer f32[37] init=normal:1
input grad f32[37]
input lr f32[1]
sgd: weight.next, buffer.next = sgd(weight, grad, lr, buffer) momentum=0.9 weight_decay=0.01
output weight.next
)",
       2, false,
       "(p := weight.clone(), torch.optim._functional.sgd([p], [grad], [buffer.clone()], weight_decay=0.01, momentum=0.9, "
       "lr=lr.item(), nesterov=False, dampening=0, maximize=False), p)[-1]"},
      {"nesterov", R"(
graph sgd_nesterov
param weight f32[11, 7] init=normal:1
state buffer f32[11, 7] init=normal:1
input grad f32[11, 7]
input lr f32[1]
sgd: weight.next, buffer.next = sgd(weight, grad, lr, buffer) momentum=0.7 weight_decay=0.2 nesterov=1
output weight.next
)",
       2, false,
       "(p := weight.clone(), torch.optim._functional.sgd([p], [grad], [buffer.clone()], weight_decay=0.2, momentum=0.7, "
       "lr=lr.item(), nesterov=True, dampening=0, maximize=False), p)[-1]"},
      {"weight_decay", R"(
graph sgd_weight_decay
param weight f32[1] init=normal:1
input grad f32[1]
input lr f32[1]
sgd: weight.next = sgd(weight, grad, lr) weight_decay=0.1
output weight.next
)",
       2, false, "weight - lr * (grad + 0.1 * weight)"},
      {"clipped", R"(
graph sgd_clipped
param weight f32[5, 3] init=normal:1
input grad f32[5, 3]
input lr f32[1]
input factor f32[1]
sgd: weight.next = sgd(weight, grad, lr, factor) weight_decay=0.1 clip=1
output weight.next
)",
       2, false, "weight - lr * (factor * grad + 0.1 * weight)"},
      {"clipped_momentum", R"(
graph sgd_clipped_momentum
param weight f32[19] init=normal:1
state buffer f32[19] init=normal:1
input grad f32[19]
input lr f32[1]
input factor f32[1]
sgd: weight.next, buffer.next = sgd(weight, grad, lr, buffer, factor) momentum=0.5 nesterov=1 clip=1
output weight.next
)",
       2, false,
       "(p := weight.clone(), torch.optim._functional.sgd([p], [factor * grad], [buffer.clone()], weight_decay=0, momentum=0.5, "
       "lr=lr.item(), nesterov=True, dampening=0, maximize=False), p)[-1]"},
      // Not a multiple of four.
      {"odd", R"(
graph sgd_odd
param weight f32[37, 41] init=normal:1
state buffer f32[37, 41] init=normal:1
input grad f32[37, 41]
input lr f32[1]
sgd: weight.next, buffer.next = sgd(weight, grad, lr, buffer) momentum=0.9 weight_decay=0.01
output weight.next
)",
       2, false,
       "(p := weight.clone(), torch.optim._functional.sgd([p], [grad], [buffer.clone()], weight_decay=0.01, momentum=0.9, "
       "lr=lr.item(), nesterov=False, dampening=0, maximize=False), p)[-1]"},
      {"bench", R"(
graph sgd_bench
param weight f32[4096, 4096] init=normal:1
state buffer f32[4096, 4096] init=normal:1
input grad f32[4096, 4096]
input lr f32[1]
sgd: weight.next, buffer.next = sgd(weight, grad, lr, buffer) momentum=0.9 weight_decay=0.01
output weight.next
)",
       2, false,
       "(p := weight.clone(), torch.optim._functional.sgd([p], [grad], [buffer.clone()], weight_decay=0.01, momentum=0.9, "
       "lr=lr.item(), nesterov=False, dampening=0, maximize=False), p)[-1]",
       true},
  };
}

}  // namespace outsize
