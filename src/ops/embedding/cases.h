#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_embedding() {
  return {
      {"one_dim", R"(
graph embedding_one_dim
input ids i32[7]
param table f32[11, 5] init=normal:1
look: y = embedding(ids, table)
output y
)",
       11, true, "F.embedding(ids, table)"},
      // Ids 5 to 8 are outside: zeros.
      {"outside", R"(
graph embedding_outside
input ids i32[6, 9]
param table f32[5, 20] init=normal:1
look: y = embedding(ids, table)
output y
)",
       9},
      {.name = "vocabulary",
       .graph = R"(
graph embedding_vocabulary
input ids i32[4, 128]
param table f32[30522, 768] init=normal:1
look: y = embedding(ids, table)
output y
)",
       .integer_limit = 30522,
       .torch = "F.embedding(ids, table)",
       .bench = true},
  };
}

}  // namespace outsize
