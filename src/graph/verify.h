#pragma once

#include "graph/graph.h"

namespace outsize {

// Recomputes what a graph promises and throws InternalError naming op and value where it does not hold: order, types as inferred,
// consumers, one update a persistent value and no reader of the old version after it. Values used by hand-written graphs that
// break the last rule throw UserError ("used twice in place").
void verify_graph(const Graph& graph);

}  // namespace outsize
