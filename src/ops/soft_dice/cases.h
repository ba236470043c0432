#pragma once

#include "ops/cases.h"

namespace outsize {

inline OpCases cases_soft_dice() {
  const std::string by_target =
      "(1 - (2 * (p * target).flatten(2).sum(2) + {0}) / (p.flatten(2).sum(2) + target.flatten(2).sum(2) + {0})).mean().reshape(1)";
  // The target of labels as one-hot maps, then the same.
  const auto torch = [&](const std::string& smooth, const std::string& classes) {
    std::string text = by_target;
    for (std::size_t at = text.find("{0}"); at != std::string::npos; at = text.find("{0}")) text.replace(at, 3, smooth);
    if (classes.empty()) return text;
    return "(target := F.one_hot(labels.long(), " + classes + ").movedim(-1, 1).to(p.dtype), " + text + ")[-1]";
  };
  return {
      {.name = "plain",
       .graph = R"(
graph soft_dice_plain
input p f32[3, 5, 37]
state target f32[3, 5, 37] init=normal:1
sums: sums = dice_sums(p, target)
loss: loss = dice_loss(sums) smooth=0.5
output loss
)",
       .torch = torch("0.5", ""),
       .positive = {"p", "target"}},
      {.name = "map",
       .graph = R"(
graph soft_dice_map
input p f32[2, 11, 6, 7]
state target f32.map[2, 11, 6, 7] init=normal:1
sums: sums = dice_sums(p, target)
loss: loss = dice_loss(sums)
output loss
)",
       .torch = torch("1", ""),
       .positive = {"p", "target"}},
      {.name = "labels",
       .graph = R"(
graph soft_dice_labels
input p f32[2, 10, 6, 7]
input labels i32[2, 6, 7]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
       .integer_limit = 10,
       .torch = torch("1", "10"),
       .positive = {"p"}},
      {.name = "plain_labels",
       .graph = R"(
graph soft_dice_plain_labels
input p f32[2, 3, 29]
input labels i32[2, 29]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
       .integer_limit = 3,
       .torch = torch("1", "3"),
       .positive = {"p"}},
      {.name = "three_channels",
       .graph = R"(
graph soft_dice_three_channels
input p f32[2, 3, 4, 9]
state target f32.map[2, 3, 4, 9] init=normal:1
sums: sums = dice_sums(p, target)
loss: loss = dice_loss(sums)
output loss
)",
       .torch = torch("1", ""),
       .positive = {"p", "target"}},
      {.name = "one_channel",
       .graph = R"(
graph soft_dice_one_channel
input p f32[3, 1, 4, 6]
input labels i32.plain[3, 4, 6]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
       .integer_limit = 2,
       .torch = torch("1", "2").replace(torch("1", "2").find(".movedim"), 0, "[..., :1]"),
       .positive = {"p"}},
      {.name = "plain_vectors",
       .graph = R"(
graph soft_dice_plain_vectors
input p f32[2, 3, 28]
input labels i32[2, 28]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
       .integer_limit = 4,
       .torch = torch("1", "4").replace(torch("1", "4").find(".movedim"), 0, "[..., :3]"),
       .positive = {"p"}},
      {.name = "volume",
       .graph = R"(
graph soft_dice_volume
input p f32[2, 3, 3, 4, 5]
input labels i32.plain[2, 3, 4, 5]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
       .integer_limit = 3,
       .torch = torch("1", "3"),
       .positive = {"p"}},
      {.name = "bench",
       .graph = R"(
graph soft_dice_bench
input p f32[2, 4, 96, 96, 96]
input labels i32.plain[2, 96, 96, 96]
sums: sums = dice_sums(p, labels)
loss: loss = dice_loss(sums)
output loss
)",
       .integer_limit = 4,
       .torch = torch("1", "4"),
       .bench = true,
       .positive = {"p"}},
  };
}

}  // namespace outsize
