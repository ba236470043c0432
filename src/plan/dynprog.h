#pragma once

#include "plan/planner.h"

namespace outsize {

// DynProg (Beaumont et al. 2020, Algorithm 1 in 500 slots): the activations whose leaving costs the least idle time.
Plan plan_dynprog(const PlanRequest& request);

}  // namespace outsize
