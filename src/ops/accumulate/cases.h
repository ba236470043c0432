#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_accumulate() {
  return {
      {"more", R"(
graph accumulate_more
state sum f32[9, 5, 3, 3] init=normal:1
input grad f32.plain[9, 5, 3, 3]
more: sum.next = accumulate(sum, grad)
output sum.next
)",
       2, false, "sum + grad"},
      {"fresh", R"(
graph accumulate_fresh
state sum f32[37] init=normal:1
input grad f32[37]
fresh: sum.next = accumulate(sum, grad) fresh=1
output sum.next
)",
       2, false, "grad.clone()"},
      {"bench", R"(
graph accumulate_bench
state sum f32[4096, 4096] init=normal:1
input grad f32[4096, 4096]
more: sum.next = accumulate(sum, grad)
output sum.next
)",
       2, false, "sum + grad", true},
  };
}

}  // namespace outsize
