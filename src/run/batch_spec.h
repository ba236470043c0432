#pragma once

#include "data/batch.h"
#include "graph/step_graph.h"

namespace outsize {

// What x and y of a step hold, and so what a loader must make. Throws UserError where labels or tokens have no op that says how
// many there are.
BatchSpec batch_spec_of(const StepGraph& step);

}  // namespace outsize
