#pragma once

#include "plan/reckon/lives.h"

namespace outsize {

// About how many seconds a step of the plan takes: what a search over many plans asks instead of lowering and simulating each.
// Runs, copies out and copies in go one after the other in three lanes (copies in one where the link is half duplex), in the order
// of the plan; updates by the host in one of their own, which takes its time from the runs where both are one processor. A run
// waits for its inputs; what comes back, for having left; and both for the bytes of pieces that have ended, the last of them first,
// in as much memory as the pieces of the plan ever take at once. Kernels and copies do not slow each other down here. `lives` are
// those of the plan's runs, all on the device; the plan's passes are those of `splits`, whose copies occupy the link while they
// run.
double estimated_seconds(const PlanRequest& request, const Lives& lives, const Plan& plan, const Splits& splits = {});

}  // namespace outsize
