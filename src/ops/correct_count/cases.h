#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_correct_count() {
  return {
      {.name = "rows",
       .graph = R"(
graph correct_count_rows
input logits f32[70, 3]
input labels i32[70]
count: y = correct_count(logits, labels)
output y
)",
       .integer_limit = 3,
       .differentiate = false,
       .torch = "(logits.argmax(1) == labels).sum().double().reshape(1)"},
      {.name = "top_five",
       .graph = R"(
graph correct_count_top_five
input logits f32[9, 4, 37]
input labels i32[9, 4]
count: y = correct_count(logits, labels) k=5
output y
)",
       .integer_limit = 40,
       .differentiate = false,
       .torch = "(logits.topk(5, -1).indices == labels.unsqueeze(-1)).sum().double().reshape(1)"},
      {.name = "map",
       .graph = R"(
graph correct_count_map
input logits f32[2, 19, 5, 7]
input labels i32[2, 5, 7]
count: y = correct_count(logits, labels) k=3
output y
)",
       .integer_limit = 20,
       .differentiate = false,
       .torch = "(logits.topk(3, 1).indices == labels.unsqueeze(1)).sum().double().reshape(1)"},
      {.name = "volume",
       .graph = R"(
graph correct_count_volume
input logits f32[2, 3, 3, 4, 5]
input labels i32.plain[2, 3, 4, 5]
count: y = correct_count(logits, labels)
output y
)",
       .integer_limit = 3,
       .differentiate = false,
       .torch = "(logits.argmax(1) == labels).sum().double().reshape(1)"},
      {.name = "many_classes",
       .graph = R"(
graph correct_count_many_classes
input logits f32[5, 5003]
input labels i32[5]
count: y = correct_count(logits, labels) k=2500
output y
)",
       .integer_limit = 5003,
       .differentiate = false,
       .torch = "(logits.topk(2500, -1).indices == labels.unsqueeze(-1)).sum().double().reshape(1)"},
      {.name = "bench",
       .graph = R"(
graph correct_count_bench
input logits f32[512, 30522]
input labels i32[512]
count: y = correct_count(logits, labels) k=5
output y
)",
       .integer_limit = 30522,
       .differentiate = false,
       .torch = "(logits.topk(5, -1).indices == labels.unsqueeze(-1)).sum().double().reshape(1)",
       .bench = true},
  };
}

}  // namespace outsize
