#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_mean_squared_error() {
  const char* const torch = "F.mse_loss(x, target).reshape(1)";
  return {
      {"plain", R"(
graph mean_squared_error_plain
input x f32[5, 13]
input target f32[5, 13]
loss: loss = mean_squared_error(x, target)
output loss
)",
       2, true, torch},
      {"map", R"(
graph mean_squared_error_map
input x f32[2, 11, 6, 7]
input target f32[2, 11, 6, 7]
loss: loss = mean_squared_error(x, target)
output loss
)",
       2, true, torch},
      {"volume", R"(
graph mean_squared_error_volume
input x f32[2, 3, 4, 5, 6]
input target f32[2, 3, 4, 5, 6]
loss: loss = mean_squared_error(x, target)
output loss
)",
       2, true, torch},
      {"one_channel", R"(
graph mean_squared_error_one_channel
input x f32[2, 1, 7, 9]
input target f32[2, 1, 7, 9]
loss: loss = mean_squared_error(x, target)
output loss
)",
       2, true, torch},
      {"large", R"(
graph mean_squared_error_large
input x f32[3, 12, 37, 40]
input target f32[3, 12, 37, 40]
loss: loss = mean_squared_error(x, target)
output loss
)",
       2, false, torch},
      {"bench", R"(
graph mean_squared_error_bench
input x f32[8, 64, 128, 128]
input target f32[8, 64, 128, 128]
loss: loss = mean_squared_error(x, target)
output loss
)",
       2, true, torch, true},
  };
}

}  // namespace outsize
