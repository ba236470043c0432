#pragma once

#include "graph/graph.h"
#include "program/program.h"

namespace outsize {

// Unrolls the program and proves, by happens-before over lanes alone (program order within a lane, waits across lanes), that every
// byte read was written by the write that precedes it for that value and box and by no later one, that no write is concurrent with
// a read or write of the same bytes, that every access lies inside its piece and every piece inside its arena, that waits cannot
// deadlock, and that the peak is the one stated and within `device_budget`.
// Shares no code with lowering. Throws InternalError naming instruction, op and value.
void check_program(const Graph& graph, const Program& program, std::int64_t device_budget = kNoLimit);

}  // namespace outsize
