#pragma once

#include <cstdint>
#include <vector>

#include "base/table.h"
#include "graph/graph.h"

namespace outsize {

// A graph without cycles, by node: the nodes that its edges lead to. Nodes are numbered so that every edge leads to a higher one.
using Followers = Table<std::vector<std::int32_t>>;

// By node: the last node before it that every path to it passes; −1 where there is none. Paths begin at the nodes that no edge
// leads to.
Table<std::int32_t> immediate_dominators(const Followers& followers);

// By node: the first node after it that every path from it passes; the number of nodes where there is none. Paths end at the nodes
// that no edge leads from.
Table<std::int32_t> immediate_post_dominators(const Followers& followers);

// The ops of forward in their order; an edge leads from one to each that reads what it makes.
struct ForwardOps {
  Table<OpId> ops;
  Followers followers;
};
ForwardOps forward_ops(const Graph& graph);

}  // namespace outsize
