#pragma once

#include "backend/interface.h"
#include "plan/plan.h"
#include "program/program.h"

namespace outsize {

// The plan with the kernels that its program runs, of those ops for which the backend has several: a run that goes on by it takes
// the same ones, whichever would be taken first then. An op whose calls have different kernels, in tiles, is left as it is.
Plan with_kernels(const Graph& graph, Plan plan, const Program& program, Backend& backend);

}  // namespace outsize
