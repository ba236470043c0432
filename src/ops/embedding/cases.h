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
      // A few entries are named by very many ids, some by none, and more ids than one block sorts.
      {"many_ids", R"(
graph embedding_many_ids
input ids i32[50, 97]
param table f32[9, 3] init=normal:1
look: y = embedding(ids, table)
output y
)",
       7, true, "F.embedding(ids, table)"},
      {"many_entries", R"(
graph embedding_many_entries
input ids i32[300]
param table f32[5000, 8] init=normal:1
look: y = embedding(ids, table)
output y
)",
       5000, true, "F.embedding(ids, table)"},
      {"wide", R"(
graph embedding_wide
input ids i32[40]
param table f32[3, 1100] init=normal:1
look: y = embedding(ids, table)
output y
)",
       3, true, "F.embedding(ids, table)"},
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
