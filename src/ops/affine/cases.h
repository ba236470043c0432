#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_affine() {
  return {
      {.name = "map",
       .graph = R"(
graph affine_map
input x f32[2, 11, 9, 7]
affine: y = affine(x) scale=0.5 shift=2
output y
)",
       .torch = "0.5 * x + 2"},
      {.name = "volume",
       .graph = R"(
graph affine_volume
input x f32[2, 5, 2, 3, 4]
affine: y = affine(x) shift=-1
output y
)",
       .torch = "x - 1"},
      {.name = "plain",
       .graph = R"(
graph affine_plain
input x f32[6, 37]
affine: y = affine(x) scale=-3
output y
)",
       .torch = "-3 * x"},
      {.name = "bench",
       .graph = R"(
graph affine_bench
input x f32[8, 256, 56, 56]
affine: y = affine(x) scale=0.5 shift=2
output y
)",
       .torch = "0.5 * x + 2",
       .bench = true},
  };
}

}  // namespace outsize
