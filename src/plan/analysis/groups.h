#pragma once

#include "graph/graph.h"

namespace outsize {

// A virtual layer: consecutive ops of forward that only one value leads into and only one leads out of, and the ops of their
// backward. A chain of ops has a group for each; whatever has branches inside (a residual block, an Inception module) is one group.
struct Group {
  std::vector<OpId> forward;
  std::vector<OpId> backward;
  ValueId input;               // what leads in: an input of the graph for the first
  ValueId output;              // what leads out; none for the last
  std::vector<ValueId> saved;  // what it makes, `output` included, and backward reads
};

// The groups of a training graph, in order. Values that count as leading are floats that forward makes, and x.
std::vector<Group> groups_of(const Graph& graph);

}  // namespace outsize
