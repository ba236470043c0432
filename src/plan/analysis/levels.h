#pragma once

#include <cstdint>
#include <vector>

#include "base/id_vector.h"
#include "base/table.h"
#include "graph/graph.h"

namespace outsize {

// The ops of a graph by level: TFLMS's γ. Variables (inputs, parameters, states) are at level 0, an op is one above the highest of
// what it reads. Ops of one level are independent of each other.
class LeveledGraph {
 public:
  explicit LeveledGraph(const Graph& graph);

  const Graph& graph() const { return graph_; }
  std::int32_t level(OpId op) const { return levels_[op]; }
  // The ops that read what `op` makes, ascending.
  const std::vector<OpId>& readers(OpId op) const { return readers_[op]; }
  // Whether a path leads from one op to another.
  bool reaches(OpId from, OpId to) const;

  // The operations after which what `source` has made and `target` reads starts to come back: TFLMS's two strategies, in the form
  // of their errata, with the first op of the graph's order where the paper takes any. `lower` ≥ 1 and `upper` count levels. None
  // where there is no such operation.
  // Algorithm 1, from `target` back: an op `lower` to `upper` levels below it, and above `source`, from which it can be reached.
  OpId direct_order(OpId source, OpId target, std::int64_t lower, std::int64_t upper) const;
  // Algorithm 2, from `source` on: an op of backward that reads what an op of forward `lower` to `upper` steps behind `source` has
  // made (`upper` excluded), lies between the levels of `source` and `target`, and from which `target` can be reached.
  OpId chain_rule(OpId source, OpId target, std::int64_t lower, std::int64_t upper) const;

 private:
  const Graph& graph_;
  IdVector<OpId, std::int32_t> levels_;        // by op
  Table<std::vector<OpId>> by_level_;          // ascending
  IdVector<OpId, std::vector<OpId>> readers_;  // by op
  std::int64_t words_ = 0;                     // of 64 bits, in a row of ancestors_
  Table<std::uint64_t> ancestors_;             // by op, a row of one bit an op: whether that op reaches it
};

}  // namespace outsize
