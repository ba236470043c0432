#pragma once

#include "plan/planner.h"

namespace outsize {

// The parameters of the paper's Table 2, by its names, and the closeness that fuse_swapins leaves open. `graph` is the model, and
// `optimizer_scopes` says what the phases of ops say here.
std::vector<PlannerOption> tflms_options();

// TFLMS (Le et al. 2018). An edge is an op that makes a value, and one that reads it; its length is the difference of their levels.
// Edges from forward to backward that are longer than one level are rewritten (and, with swap_branches, edges inside forward longer
// than branch_threshold and than one level); those of variables never are. A value with such an edge starts to leave as soon as it
// is made, once, and ends on the device when it has left and its other readers have run: no op waits for that. It comes back for
// each rewritten edge, or with fuse_swapins for those that are close, after a control operation (LeveledGraph), or, where there is
// none, at the read itself, and ends with the read. The chain rule finds ops of backward only, so that edges inside forward take
// the direct order in either strategy. A value is on the device once: stays that touch or overlap are one, and a value with one
// stay does not leave.
//
// The n_tensors first values in breadth-first order leave, and come back `lb` levels early. What of both is not given is searched
// as section 5.2 has it: for each lb of a list, the fewest values that fit (by halving, since more of them hardly ever need more),
// and of these plans the one with the least estimated time. Throws UserError for a scope, op or type that there is not.
Plan plan_tflms(const PlanRequest& request);

}  // namespace outsize
