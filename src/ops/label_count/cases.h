#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_label_count() {
  return {
      {"tokens", R"(
graph label_count_tokens
input labels i32[5, 9]
count: count = label_count(labels) ignore_index=2 dtype=f32
output count
)",
       4, false, "(labels != 2).sum().float().reshape(1)"},
      {"volume", R"(
graph label_count_volume
input labels i32.plain[3, 2, 5, 4]
count: count = label_count(labels) ignore_index=-100
output count
)",
       3, false, "(labels != -100).sum().float().reshape(1)"},
      {"large", R"(
graph label_count_large
input labels i32.plain[4, 131, 128]
count: count = label_count(labels) ignore_index=1
output count
)",
       3, false, "(labels != 1).sum().float().reshape(1)"},
  };
}

}  // namespace outsize
