#pragma once

#include "graph/graph.h"

namespace outsize {

// The graph that evaluates what `forward` (a graph without backward ops) trains: norms use their running statistics, nothing is
// dropped, nothing is updated. Its values have the names of those they stand for; inputs that nothing reads any more are gone.
Graph evaluation_graph(const Graph& forward);

}  // namespace outsize
