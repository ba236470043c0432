#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_binary_cross_entropy() {
  const char* const torch = "F.binary_cross_entropy_with_logits(logits, target).reshape(1)";
  return {
      {"plain", R"(
graph binary_cross_entropy_plain
input logits f32[5, 133]
state target f32[5, 133] init=normal:1
loss: loss = binary_cross_entropy(logits, target)
output loss
)",
       2, true, torch},
      {"map", R"(
graph binary_cross_entropy_map
input logits f32[2, 11, 6, 7]
state target f32.map[2, 11, 6, 7] init=normal:1
loss: loss = binary_cross_entropy(logits, target)
output loss
)",
       2, true, torch},
      {"volume", R"(
graph binary_cross_entropy_volume
input logits f32[2, 1, 3, 4, 5]
state target f32.map[2, 1, 3, 4, 5] init=normal:1
loss: loss = binary_cross_entropy(logits, target)
output loss
)",
       2, true, torch},
      {"three_channels", R"(
graph binary_cross_entropy_three_channels
input logits f32[1, 3, 5, 7]
state target f32.map[1, 3, 5, 7] init=normal:1
loss: loss = binary_cross_entropy(logits, target)
output loss
)",
       2, true, torch},
      {"bench", R"(
graph binary_cross_entropy_bench
input logits f32[8, 8, 512, 512]
state target f32.map[8, 8, 512, 512] init=normal:1
loss: loss = binary_cross_entropy(logits, target)
output loss
)",
       2, true, torch, true},
  };
}

}  // namespace outsize
