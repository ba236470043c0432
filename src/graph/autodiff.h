#pragma once

#include <vector>

#include "graph/graph.h"

namespace outsize {

struct AutodiffOptions {
  std::vector<ValueId> of;            // differentiated outputs; each gets a graph input "grad.<name>" that seeds it
  std::vector<ValueId> with_respect;  // besides all parameters: inputs whose gradient is wanted
};

struct AutodiffResult {
  std::vector<ValueId> seeds;                          // the inputs "grad.<name>", in the order of `of`
  std::vector<std::pair<ValueId, ValueId>> gradients;  // parameter or wanted input → its gradient, in graph order
};

// Appends the backward ops of `graph` to it. Throws UserError when an op on the way has no gradient.
AutodiffResult differentiate(Graph& graph, const AutodiffOptions& options);

}  // namespace outsize
