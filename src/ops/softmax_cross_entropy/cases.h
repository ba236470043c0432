#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_softmax_cross_entropy() {
  return {
      {"ten", R"(
graph softmax_cross_entropy_ten
input logits f32[7, 10]
input labels i32[7]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       10},
      {"many", R"(
graph softmax_cross_entropy_many
input logits f32[3, 133]
input labels i32[3]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       133},
  };
}

}  // namespace outsize
