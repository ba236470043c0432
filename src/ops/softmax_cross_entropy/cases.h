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
       10, true, "F.cross_entropy(logits, labels.long()).reshape(1)"},
      {"many", R"(
graph softmax_cross_entropy_many
input logits f32[3, 3333]
input labels i32[3]
loss: loss = softmax_cross_entropy(logits, labels) label_smoothing=0.1
output loss
)",
       3333, true, "F.cross_entropy(logits, labels.long(), label_smoothing=0.1).reshape(1)"},
      {"tokens", R"(
graph softmax_cross_entropy_tokens
input logits f32[3, 5, 11]
input labels i32[3, 5]
count: count = label_count(labels) ignore_index=4 dtype=f32
loss: loss = softmax_cross_entropy(logits, labels, count) ignore_index=4
output loss
)",
       11, true, "F.cross_entropy(logits.transpose(1, 2), labels.long(), ignore_index=4).reshape(1)"},
      {"map", R"(
graph softmax_cross_entropy_map
input logits f32[2, 5, 7, 6]
input labels i32[2, 7, 6]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       5, true, "F.cross_entropy(logits, labels.long()).reshape(1)"},
      {"map_ignored", R"(
graph softmax_cross_entropy_map_ignored
input logits f32[2, 21, 5, 7]
input labels i32[2, 5, 7]
count: count = label_count(labels) ignore_index=-1 dtype=f32
loss: loss = softmax_cross_entropy(logits, labels, count) ignore_index=-1 label_smoothing=0.2
output loss
)",
       8, true, "F.cross_entropy(logits, labels.long(), ignore_index=-1, label_smoothing=0.2).reshape(1)", false, -1},
      {"volume", R"(
graph softmax_cross_entropy_volume
input logits f32[2, 3, 3, 4, 5]
input labels i32.plain[2, 3, 4, 5]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       3, true, "F.cross_entropy(logits, labels.long()).reshape(1)"},
      {"two_classes", R"(
graph softmax_cross_entropy_two_classes
input logits f32[9, 2]
input labels i32[9]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       2, true, "F.cross_entropy(logits, labels.long()).reshape(1)"},
      {"many_rows", R"(
graph softmax_cross_entropy_many_rows
input logits f32[1100, 7]
input labels i32[1100]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       7, true, "F.cross_entropy(logits, labels.long()).reshape(1)"},
      {"aligned", R"(
graph softmax_cross_entropy_aligned
input logits f32[3, 2, 5200]
input labels i32[3, 2]
count: count = label_count(labels) ignore_index=17 dtype=f32
loss: loss = softmax_cross_entropy(logits, labels, count) ignore_index=17 label_smoothing=0.3
output loss
)",
       5200, true, "F.cross_entropy(logits.transpose(1, 2), labels.long(), ignore_index=17, label_smoothing=0.3).reshape(1)"},
      {"bench_vocabulary", R"(
graph softmax_cross_entropy_bench_vocabulary
input logits f32[512, 30522]
input labels i32[512]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       30522, true, "F.cross_entropy(logits, labels.long()).reshape(1)", true},
      {"bench_map", R"(
graph softmax_cross_entropy_bench_map
input logits f32[4, 21, 512, 512]
input labels i32[4, 512, 512]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
       21, true, "F.cross_entropy(logits, labels.long()).reshape(1)", true},
  };
}

}  // namespace outsize
