#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_layer_norm() {
  return {
      {"plain", R"(
graph layer_norm_plain
input x f32[5, 37]
norm: y = layer_norm(x)
output y
)",
       2, true, "F.layer_norm(x, (37,))"},
      {"gamma", R"(
graph layer_norm_gamma
input x f32[3, 4, 20]
param gamma f32[20] init=normal:1
norm: y = layer_norm(x, gamma) eps=0.1
output y
)",
       2, true, "F.layer_norm(x, (20,), gamma, None, 0.1)"},
      {"affine", R"(
graph layer_norm_affine
input x f32[4, 3, 70]
param gamma f32[70] init=normal:1
param beta f32[70] init=normal:1
norm: y = layer_norm(x, gamma, beta) eps=1e-6
output y
)",
       2, true, "F.layer_norm(x, (70,), gamma, beta, 1e-6)"},
      {"many_rows", R"(
graph layer_norm_many_rows
input x f32[150, 3, 8]
param gamma f32[8] init=normal:1
param beta f32[8] init=normal:1
norm: y = layer_norm(x, gamma, beta)
output y
)",
       2, true, "F.layer_norm(x, (8,), gamma, beta)"},
      {"one_feature", R"(
graph layer_norm_one_feature
input x f32[6, 1]
param gamma f32[1] init=normal:1
param beta f32[1] init=normal:1
norm: y = layer_norm(x, gamma, beta)
output y
)",
       2, false, "F.layer_norm(x, (1,), gamma, beta)"},
      {"three_features", R"(
graph layer_norm_three_features
input x f32[70, 3]
param gamma f32[3] init=normal:1
param beta f32[3] init=normal:1
norm: y = layer_norm(x, gamma, beta)
output y
)",
       2, true, "F.layer_norm(x, (3,), gamma, beta)"},
      {"long", R"(
graph layer_norm_long
input x f32[2, 5003]
param gamma f32[5003] init=normal:1
param beta f32[5003] init=normal:1
norm: y = layer_norm(x, gamma, beta)
output y
)",
       2, true, "F.layer_norm(x, (5003,), gamma, beta)"},
      {"longer", R"(
graph layer_norm_longer
input x f32[5, 1200]
param gamma f32[1200] init=normal:1
param beta f32[1200] init=normal:1
norm: y = layer_norm(x, gamma, beta)
output y
)",
       2, true, "F.layer_norm(x, (1200,), gamma, beta)"},
      {.name = "transformer",
       .graph = R"(
graph layer_norm_transformer
input x f32[16, 512, 768]
param gamma f32[768] init=ones
param beta f32[768] init=zeros
norm: y = layer_norm(x, gamma, beta)
output y
)",
       .torch = "F.layer_norm(x, (768,), gamma, beta)",
       .bench = true},
  };
}

}  // namespace outsize
