#pragma once

#include <vector>

#include "graph/graph.h"

namespace outsize {

// The graph's ops in their order, but every update as early as it can be: after its inputs are made and every reader of the value
// it replaces has run, and every number that backward makes of its results (a gradient's norm) at once. A gradient then lives no
// longer than it must.
std::vector<OpId> eager_order(const Graph& graph);

}  // namespace outsize
