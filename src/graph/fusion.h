#pragma once

#include "graph/graph.h"

namespace outsize {

// The forward graph with every pair of ops fused that an OpDef offers to fuse, until none is left. Values that disappear are
// those between fused ops; all other values, and the op names of the first of each pair, stay.
Graph fuse(const Graph& graph);

}  // namespace outsize
