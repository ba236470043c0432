#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_dropout() {
  return {
      {.name = "map",
       .graph = R"(
graph dropout_map
input x f32[2, 11, 9, 7]
input key i32[4]
drop: y = dropout(x, key) p=0.3 stream=5
output y
)",
       .integer_limit = 1 << 30},
      {.name = "volume",
       .graph = R"(
graph dropout_volume
input x f32[2, 9, 5, 3, 7]
input key i32[4]
drop: y = dropout(x, key) p=0.6
output y
)",
       .integer_limit = 1 << 30},
      {.name = "plain",
       .graph = R"(
graph dropout_plain
input x f32[5, 3, 37]
input key i32[4]
drop: y = dropout(x, key) stream=4294967295
output y
)",
       .integer_limit = 1 << 30},
      // As many elements as the key has words: the boxes of the two must not be taken for each other.
      {.name = "four",
       .graph = R"(
graph dropout_four
input x f32[4]
input key i32[4]
drop: y = dropout(x, key) p=0
output y
)",
       .integer_limit = 1 << 30},
      {.name = "samples_map",
       .graph = R"(
graph dropout_samples_map
input x f32[7, 11, 3, 4]
input key i32[4]
drop: y = dropout(x, key) p=0.4 stream=2 unit=sample
output y
)",
       .integer_limit = 1 << 30},
      {.name = "samples_plain",
       .graph = R"(
graph dropout_samples_plain
input x f32[9, 5]
input key i32[4]
drop: y = dropout(x, key) unit=sample
output y
)",
       .integer_limit = 1 << 30},
      {.name = "three_channels",
       .graph = R"(
graph dropout_three_channels
input x f32[2, 3, 6, 8]
input key i32[4]
drop: y = dropout(x, key) p=0.4
output y
)",
       .integer_limit = 1 << 30},
      {.name = "even_plane",
       .graph = R"(
graph dropout_even_plane
input x f32[2, 8, 5, 12]
input key i32[4]
drop: y = dropout(x, key) p=0.7 stream=1
output y
)",
       .integer_limit = 1 << 30},
      {.name = "one_channel",
       .graph = R"(
graph dropout_one_channel
input x f32[3, 1, 8, 6]
input key i32[4]
drop: y = dropout(x, key) p=0.5
output y
)",
       .integer_limit = 1 << 30},
      {.name = "even_rows",
       .graph = R"(
graph dropout_even_rows
input x f32[3, 4, 20]
input key i32[4]
drop: y = dropout(x, key) p=0.2
output y
)",
       .integer_limit = 1 << 30},
      {.name = "samples_even",
       .graph = R"(
graph dropout_samples_even
input x f32[5, 4, 3, 6]
input key i32[4]
drop: y = dropout(x, key) p=0.4 unit=sample
output y
)",
       .integer_limit = 1 << 30},
      {.name = "large",
       .graph = R"(
graph dropout_large
input x f32[2, 24, 37, 31]
input key i32[4]
drop: y = dropout(x, key) p=0.1 stream=7
output y
)",
       .integer_limit = 1 << 30,
       .differentiate = false},
      {.name = "bench_tokens",
       .graph = R"(
graph dropout_bench_tokens
input x f32[8, 512, 768]
input key i32[4]
drop: y = dropout(x, key) p=0.1
output y
)",
       .torch = "F.dropout(x, 0.1)",
       .bench = true},
      {.name = "bench_map",
       .graph = R"(
graph dropout_bench_map
input x f32[8, 256, 56, 56]
input key i32[4]
drop: y = dropout(x, key) p=0.1
output y
)",
       .torch = "F.dropout(x, 0.1)",
       .bench = true},
  };
}

}  // namespace outsize
