#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_adam() {
  return {
      {.name = "plain",
       .graph = R"(
graph adam_plain
param weight f32[9, 5, 3, 3] init=normal:1
state m f32[9, 5, 3, 3] init=normal:1
state v f32[9, 5, 3, 3] init=normal:1
input grad f32.plain[9, 5, 3, 3]
input lr f32[1]
input step i32[1]
adam: weight.next, m.next, v.next = adam(weight, grad, lr, step, m, v)
output weight.next
)",
       .integer_limit = 5,
       .differentiate = false,
       .torch = "(p := weight.clone(), torch.optim._functional.adam([p], [grad], [m.clone()], [v.clone()], [], [step - 1.0], "
                "amsgrad=False, beta1=0.9, beta2=0.999, lr=lr.item(), weight_decay=0, eps=1e-8, maximize=False), p)[-1]",
       .integer_least = 1,
       .positive = {"v"}},
      {.name = "weight_decay",
       .graph = R"(
graph adam_weight_decay
param weight f32[37] init=normal:1
state m f32[37] init=normal:1
state v f32[37] init=normal:1
input grad f32[37]
input lr f32[1]
input step i32[1]
adam: weight.next, m.next, v.next = adam(weight, grad, lr, step, m, v) beta1=0.8 beta2=0.95 eps=0.01 weight_decay=0.3
output weight.next
)",
       .integer_limit = 900,
       .differentiate = false,
       .torch = "(p := weight.clone(), torch.optim._functional.adam([p], [grad], [m.clone()], [v.clone()], [], [step - 1.0], "
                "amsgrad=False, beta1=0.8, beta2=0.95, lr=lr.item(), weight_decay=0.3, eps=0.01, maximize=False), p)[-1]",
       .integer_least = 1,
       .positive = {"v"}},
      {.name = "adamw",
       .graph = R"(
graph adam_adamw
param weight f32[6, 11] init=normal:1
state m f32[6, 11] init=normal:1
state v f32[6, 11] init=normal:1
input grad f32[6, 11]
input lr f32[1]
input step i32[1]
adam: weight.next, m.next, v.next = adam(weight, grad, lr, step, m, v) weight_decay=0.3 decoupled=1
output weight.next
)",
       .integer_limit = 20,
       .differentiate = false,
       .torch = "(p := weight.clone(), torch.optim._functional.adamw([p], [grad], [m.clone()], [v.clone()], [], [step - 1.0], "
                "amsgrad=False, beta1=0.9, beta2=0.999, lr=lr.item(), weight_decay=0.3, eps=1e-8, maximize=False), p)[-1]",
       .integer_least = 1,
       .positive = {"v"}},
      {.name = "clipped",
       .graph = R"(
graph adam_clipped
param weight f32[1] init=normal:1
state m f32[1] init=normal:1
state v f32[1] init=normal:1
input grad f32[1]
input lr f32[1]
input step i32[1]
input factor f32[1]
adam: weight.next, m.next, v.next = adam(weight, grad, lr, step, m, v, factor) clip=1
output weight.next
)",
       .integer_limit = 9,
       .differentiate = false,
       .torch = "(p := weight.clone(), torch.optim._functional.adam([p], [factor * grad], [m.clone()], [v.clone()], [], "
                "[step - 1.0], amsgrad=False, beta1=0.9, beta2=0.999, lr=lr.item(), weight_decay=0, eps=1e-8, maximize=False), "
                "p)[-1]",
       .integer_least = 1,
       .positive = {"v"}},
      // More elements than the blocks of a card take at once, and not a multiple of four.
      {.name = "large",
       .graph = R"(
graph adam_large
param weight f32[223, 229] init=normal:1
state m f32[223, 229] init=normal:1
state v f32[223, 229] init=normal:1
input grad f32[223, 229]
input lr f32[1]
input step i32[1]
input factor f32[1]
adam: weight.next, m.next, v.next = adam(weight, grad, lr, step, m, v, factor) weight_decay=0.1 clip=1
output weight.next
)",
       .integer_limit = 9,
       .differentiate = false,
       .torch = "(p := weight.clone(), torch.optim._functional.adam([p], [factor * grad], [m.clone()], [v.clone()], [], "
                "[step - 1.0], amsgrad=False, beta1=0.9, beta2=0.999, lr=lr.item(), weight_decay=0.1, eps=1e-8, maximize=False), "
                "p)[-1]",
       .integer_least = 1,
       .positive = {"v"}},
      {.name = "bench",
       .graph = R"(
graph adam_bench
param weight f32[4096, 2048] init=normal:1
state m f32[4096, 2048] init=normal:1
state v f32[4096, 2048] init=normal:1
input grad f32[4096, 2048]
input lr f32[1]
input step i32[1]
adam: weight.next, m.next, v.next = adam(weight, grad, lr, step, m, v)
output weight.next
)",
       .integer_limit = 5,
       .differentiate = false,
       .torch = "(p := weight.clone(), torch.optim._functional.adam([p], [grad], [m.clone()], [v.clone()], [], [step - 1.0], "
                "amsgrad=False, beta1=0.9, beta2=0.999, lr=lr.item(), weight_decay=0, eps=1e-8, maximize=False), p)[-1]",
       .bench = true,
       .integer_least = 1,
       .positive = {"v"}},
  };
}

}  // namespace outsize
