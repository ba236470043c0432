#pragma once

#include <optional>
#include <vector>

#include "plan/reckon/lives.h"
#include "plan/tiling/micro_ops.h"

namespace outsize {

// Ops that can run as one, piece by piece, so that a value between them is never whole: the largest activation that has such ops,
// as the logits of a language model, whose loss and gradients take them token by token.
struct LargeValue {
  ValueId value;
  std::vector<OpId> ops;             // in the order they run
  std::vector<OpId> order;           // of all ops of the graph, those together
  std::vector<int> dims;             // along which the ops can be cut
  std::vector<std::int64_t> counts;  // by dimension of `dims`: the most pieces
};

// The largest activation of at least so many bytes, where it can be taken apart. `order`: of all ops.
std::optional<LargeValue> find_large_value(const PlanRequest& request, const std::vector<OpId>& order, std::int64_t least_bytes);

// The runs in which those ops are one, which stands under the last of them, where they follow each other but for updates; nothing
// where they do not.
std::optional<Runs> joined_runs(const Graph& graph, const Runs& runs, const LargeValue& large);

}  // namespace outsize
