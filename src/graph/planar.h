#pragma once

#include "graph/graph.h"

namespace outsize {

// Makes an input that is a map planar if all ops that read it take it so.
void make_planar(Graph& graph, ValueId input);

}  // namespace outsize
