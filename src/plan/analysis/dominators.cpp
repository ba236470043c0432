#include "plan/analysis/dominators.h"

#include <algorithm>

#include "base/id_vector.h"

namespace outsize {

namespace {

Followers reversed(const Followers& followers) {
  const auto count = static_cast<std::int32_t>(followers.size());
  Followers leaders(followers.size());
  for (std::int32_t node = 0; node < count; ++node)
    for (const std::int32_t next : followers[node]) leaders[next].push_back(node);
  return leaders;
}

}  // namespace

Table<std::int32_t> immediate_dominators(const Followers& followers) {
  const Followers leaders = reversed(followers);
  Table<std::int32_t> dominators(followers.size(), -1);
  for (std::int64_t node = 0; node < leaders.size(); ++node) {
    if (leaders[node].empty()) continue;
    std::int32_t common = leaders[node][0];
    // A dominator has a lower number than what it dominates, so the higher of the two is replaced by its own until they meet.
    for (std::int32_t other : leaders[node])
      while (common != other) {
        std::int32_t& higher = common > other ? common : other;
        higher = dominators[higher];
      }
    dominators[node] = common;
  }
  return dominators;
}

Table<std::int32_t> immediate_post_dominators(const Followers& followers) {
  const auto last = static_cast<std::int32_t>(followers.size()) - 1;
  Followers mirrored(followers.size());
  for (std::int32_t node = 0; node <= last; ++node)
    for (const std::int32_t next : followers[node]) mirrored[last - next].push_back(last - node);
  Table<std::int32_t> dominators = immediate_dominators(mirrored);
  std::reverse(dominators.begin(), dominators.end());
  for (std::int32_t& dominator : dominators) dominator = last - dominator;
  return dominators;
}

ForwardOps forward_ops(const Graph& graph) {
  ForwardOps forward;
  IdVector<OpId, std::int32_t> position(graph.op_count(), -1);
  for (std::int64_t o = 0; o < graph.op_count(); ++o) {
    if (graph.op(OpId(o)).phase != Phase::forward) continue;
    position[OpId(o)] = static_cast<std::int32_t>(forward.ops.size());
    forward.ops.push_back(OpId(o));
  }
  forward.followers.resize(forward.ops.size());
  for (std::int64_t node = 0; node < forward.ops.size(); ++node) {
    std::vector<std::int32_t>& followers = forward.followers[node];
    for (ValueId output : graph.op(forward.ops[node]).outputs)
      for (OpId reader : graph.value(output).consumers)
        if (position[reader] >= 0) followers.push_back(position[reader]);
    std::sort(followers.begin(), followers.end());
    followers.erase(std::unique(followers.begin(), followers.end()), followers.end());
  }
  return forward;
}

}  // namespace outsize
