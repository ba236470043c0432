#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_reshape() {
  return {
      // The order is N C H W whatever the layout, so a blocked map must be transposed.
      {"flatten", R"(
graph reshape_flatten
input x f32[3, 5, 4, 3]
reshape: y = reshape(x) shape=[3, 60]
output y
)"},
      {"flatten_blocks", R"(
graph reshape_flatten_blocks
input x f32[1, 16, 3, 4]
reshape: y = reshape(x) shape=[1, -1]
output y
)"},
      {"to_map", R"(
graph reshape_to_map
input x f32[3, 60]
reshape: y = reshape(x) shape=[3, 5, 4, 3] format=map
output y
)"},
      {"to_map_blocks", R"(
graph reshape_to_map_blocks
input x f32[2, 96]
reshape: y = reshape(x) shape=[-1, 16, 2, 3] format=map
output y
)"},
      {"map_to_map", R"(
graph reshape_map_to_map
input x f32[2, 12, 2, 3]
reshape: y = reshape(x) shape=[2, 6, 4, 3] format=map
output y
)"},
      // Neither side's steps are whole numbers of the other's.
      {.name = "map_to_map_uneven",
       .graph = R"(
graph reshape_map_to_map_uneven
input x f32[2, 6, 2, 3]
reshape: y = reshape(x) shape=[2, 4, 3, 3] format=map
output y
)",
       .torch = "x.reshape(2, 4, 3, 3)"},
      // Few channels, many positions; and the other way round.
      {.name = "image",
       .graph = R"(
graph reshape_image
input x f32[2, 3, 25, 31]
reshape: y = reshape(x) shape=[2, -1]
output y
)",
       .differentiate = false,
       .torch = "x.reshape(2, -1)"},
      {.name = "many_channels",
       .graph = R"(
graph reshape_many_channels
input x f32[2, 70, 3, 3]
reshape: y = reshape(x) shape=[2, -1]
output y
)",
       .torch = "x.reshape(2, -1)"},
      // Dimension 0 changes, so only the whole can be computed.
      {"samples_change", R"(
graph reshape_samples_change
input x f32[2, 6, 2, 2]
reshape: y = reshape(x) shape=[4, 3, -1, 2] format=map
output y
)"},
      // Plain to plain may run in place.
      {"plain", R"(
graph reshape_plain
input x f32[6, 8]
reshape: y = reshape(x) shape=[6, 2, 4]
output y
)"},
      {"plain_samples_change", R"(
graph reshape_plain_samples_change
input x f32[6, 4]
reshape: y = reshape(x) shape=[-1, 8]
output y
)"},
      {.name = "large",
       .graph = R"(
graph reshape_large
input x f32[4, 24, 9, 11]
reshape: y = reshape(x) shape=[4, -1]
output y
)",
       .differentiate = false},
      {.name = "volume",
       .graph = R"(
graph reshape_volume
input x f32[2, 5, 2, 3, 4]
reshape: y = reshape(x) shape=[2, 120]
output y
)",
       .torch = "x.reshape(2, 120)"},
      {.name = "to_volume",
       .graph = R"(
graph reshape_to_volume
input x f32[2, 120]
reshape: y = reshape(x) shape=[2, 5, 2, 3, 4] format=map
output y
)",
       .torch = "x.reshape(2, 5, 2, 3, 4)"},
      {.name = "volume_to_map",
       .graph = R"(
graph reshape_volume_to_map
input x f32[2, 9, 2, 3, 4]
reshape: y = reshape(x) shape=[2, 18, 3, 4] format=map
output y
)",
       .torch = "x.reshape(2, 18, 3, 4)"},
      {.name = "integers",
       .graph = R"(
graph reshape_integers
input x i32[4, 6]
reshape: y = reshape(x) shape=[24]
output y
)",
       .integer_limit = 1000,
       .differentiate = false,
       .torch = "x.reshape(24)"},
      {.name = "bench",
       .graph = R"(
graph reshape_bench
input x f32[8, 256, 56, 56]
reshape: y = reshape(x) shape=[8, -1]
output y
)",
       .torch = "x.reshape(8, -1)",
       .bench = true},
  };
}

}  // namespace outsize
