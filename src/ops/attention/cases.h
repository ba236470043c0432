#pragma once

#include <fmt/format.h>

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_attention() {
  // What attention is for heads of width d, by PyTorch.
  const auto torch = [](int heads, const std::string& extra) {
    const std::string split = fmt::format(".unflatten(-1, ({}, -1)).transpose(1, 2)", heads);
    return "((q" + split + " @ k" + split + ".transpose(-1, -2) / (q.shape[-1] / " + std::to_string(heads) + ") ** 0.5" + extra +
           ").softmax(-1) @ v" + split + ").transpose(1, 2).flatten(2)";
  };
  return {
      {"one_head", R"(
graph attention_one_head
input q f32[2, 5, 7]
input k f32[2, 6, 7]
input v f32[2, 6, 7]
look: y = attention(q, k, v)
output y
)",
       2, true, torch(1, "")},
      {"heads", R"(
graph attention_heads
input q f32[3, 9, 48]
input k f32[3, 9, 48]
input v f32[3, 9, 48]
look: y = attention(q, k, v) heads=3 scale=0.3
output y
)"},
      {"causal", R"(
graph attention_causal
input q f32[2, 11, 12]
input k f32[2, 11, 12]
input v f32[2, 11, 12]
look: y = attention(q, k, v) heads=2 causal=1
output y
)",
       2, true, torch(2, " + torch.full((11, 11), float('-inf')).triu(1)")},
      // Query i sees the keys up to i + 3.
      {"causal_more_keys", R"(
graph attention_causal_more_keys
input q f32[2, 4, 10]
input k f32[2, 7, 10]
input v f32[2, 7, 10]
look: y = attention(q, k, v) heads=2 causal=1
output y
)"},
      // The first three queries see no key.
      {"causal_fewer_keys", R"(
graph attention_causal_fewer_keys
input q f32[2, 7, 10]
input k f32[2, 4, 10]
input v f32[2, 4, 10]
look: y = attention(q, k, v) heads=2 causal=1
output y
)"},
      {"mask_of_keys", R"(
graph attention_mask_of_keys
input q f32[3, 5, 12]
input k f32[3, 6, 12]
input v f32[3, 6, 12]
state mask f32[3, 1, 1, 6] init=zeros
look: y = attention(q, k, v, mask) heads=2 mask=1
output y
)",
       2, true, torch(2, " + mask")},
      {"mask_of_all", R"(
graph attention_mask_of_all
input q f32[2, 5, 12]
input k f32[2, 6, 12]
input v f32[2, 6, 12]
state mask f32[2, 3, 5, 6] init=zeros
look: y = attention(q, k, v, mask) heads=3 mask=1 causal=1
output y
)"},
      {"dropout", R"(
graph attention_dropout
input q f32[2, 5, 8]
input k f32[2, 7, 8]
input v f32[2, 7, 8]
input key i32[4]
look: y = attention(q, k, v, key) heads=2 p=0.4 stream=3
output y
)",
       1000},
      {"dropout_mask", R"(
graph attention_dropout_mask
input q f32[2, 6, 12]
input k f32[2, 8, 12]
input v f32[2, 8, 12]
state mask f32[1, 1, 6, 8] init=zeros
input key i32[4]
look: y = attention(q, k, v, mask, key) heads=2 mask=1 p=0.3 stream=70000
output y
)",
       1000},
      // Several blocks of queries and keys, the last of each not whole.
      {"blocks", R"(
graph attention_blocks
input q f32[2, 150, 20]
input k f32[2, 300, 20]
input v f32[2, 300, 20]
look: y = attention(q, k, v) heads=1
output y
)",
       2, false, torch(1, "")},
      {"blocks_causal", R"(
graph attention_blocks_causal
input q f32[1, 201, 16]
input k f32[1, 201, 16]
input v f32[1, 201, 16]
input key i32[4]
look: y = attention(q, k, v, key) heads=2 causal=1 p=0.1
output y
)",
       1000},
      // For kernels that have a head's features in registers: heads of 8, 32, 64, 128 and of widths between; rows in whole quads
      // with masks and dropout; parts of blocks, and queries that see nothing, at the ends.
      {"quads", R"(
graph attention_quads
input q f32[2, 70, 24]
input k f32[2, 83, 24]
input v f32[2, 83, 24]
look: y = attention(q, k, v) heads=3
output y
)",
       2, true, torch(3, "")},
      {"quads_masks", R"(
graph attention_quads_masks
input q f32[2, 37, 64]
input k f32[2, 72, 64]
input v f32[2, 72, 64]
state mask f32[2, 1, 37, 72] init=zeros
input key i32[4]
look: y = attention(q, k, v, mask, key) heads=2 mask=1 p=0.3 stream=5 scale=0.1
output y
)",
       1000},
      {"quads_causal_64", R"(
graph attention_quads_causal_64
input q f32[1, 140, 128]
input k f32[1, 140, 128]
input v f32[1, 140, 128]
input key i32[4]
look: y = attention(q, k, v, key) heads=2 causal=1 p=0.1 stream=70000
output y
)",
       1000},
      {"quads_causal_fewer_keys", R"(
graph attention_quads_causal_fewer_keys
input q f32[1, 150, 40]
input k f32[1, 68, 40]
input v f32[1, 68, 40]
state mask f32[1, 1, 1, 68] init=zeros
look: y = attention(q, k, v, mask) heads=1 causal=1 mask=1 scale=-0.2
output y
)"},
      {"quads_128", R"(
graph attention_quads_128
input q f32[1, 33, 128]
input k f32[1, 49, 128]
input v f32[1, 49, 128]
look: y = attention(q, k, v)
output y
)",
       2, true, torch(1, "")},
      {.name = "bert",
       .graph = R"(
graph attention_bert
input q f32[4, 128, 768]
input k f32[4, 128, 768]
input v f32[4, 128, 768]
look: y = attention(q, k, v) heads=12
output y
)",
       .torch = torch(12, ""),
       .bench = true},
      {.name = "gpt",
       .graph = R"(
graph attention_gpt
input q f32[1, 1024, 768]
input k f32[1, 1024, 768]
input v f32[1, 1024, 768]
look: y = attention(q, k, v) heads=12 causal=1
output y
)",
       .torch = torch(12, " + torch.full((1024, 1024), float('-inf')).triu(1)"),
       .bench = true},
  };
}

}  // namespace outsize
