#pragma once

#include "graph/graph.h"

namespace outsize {

// The same network for an input "x" of another shape: more or fewer samples, or samples of other extents. The inputs "labels" and
// "target" follow: their first extent is x's, and where their last ones were those of x's positions they are again. Throws
// UserError where an op does not fit the new shapes (a reshape to fixed extents, say) or a parameter would have to change.
Graph reshaped(const Graph& forward, const Dims& x_shape);

}  // namespace outsize
