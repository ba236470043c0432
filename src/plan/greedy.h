#pragma once

#include "plan/planner.h"

namespace outsize {

// Greedy (Beaumont et al. 2020, Theorem 2 rounded up): the first activations of the network leave, as many as the peak exceeds the
// budget by.
Plan plan_greedy(const PlanRequest& request);

}  // namespace outsize
