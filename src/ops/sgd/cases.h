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
       2, false},
      {"momentum", R"(
graph sgd_momentum
param weight f32[37] init=normal:1
state buffer f32[37] init=normal:1
input grad f32[37]
input lr f32[1]
sgd: weight.next, buffer.next = sgd(weight, grad, lr, buffer) momentum=0.9 weight_decay=0.01
output weight.next
)",
       2, false},
      {"weight_decay", R"(
graph sgd_weight_decay
param weight f32[1] init=normal:1
input grad f32[1]
input lr f32[1]
sgd: weight.next = sgd(weight, grad, lr) weight_decay=0.1
output weight.next
)",
       2, false},
  };
}

}  // namespace outsize
