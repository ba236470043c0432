#pragma once

#include <vector>

#include "graph/graph.h"

namespace outsize {

// The graph's ops in their order, but every update as early as it can be: after its inputs are made and every reader of the value
// it replaces has run, and every number that backward makes of its results (a gradient's norm) at once. A gradient then lives no
// longer than it must.
std::vector<OpId> eager_order(const Graph& graph);
// The same for another order of the graph's ops.
std::vector<OpId> eager_order(const Graph& graph, const std::vector<OpId>& from);

// The graph's ops in their order, but the gradient of a weight, which only its update reads, right behind what it reads where it
// has no more bytes than the gradient of the data, which is made beside it: the two are then not held together with what both read.
std::vector<OpId> narrow_order(const Graph& graph);

// TSPLIT's schedule (Algorithm 1 as corrected): depth first along consumers, an op once all of its inputs are made. Forward comes
// before backward, and that before updates. Of several consumers, those whose results only updates read go first: the gradients
// of an op, which are one op in the paper, are several here.
std::vector<OpId> depth_first_order(const Graph& graph);

}  // namespace outsize
