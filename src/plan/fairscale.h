#pragma once

#include "plan/planner.h"

namespace outsize {

// FairScale's offload (as TSPLIT has it): parameters, their optimizer state, and the activations between the groups of the network
// live in host memory; each group's are brought in when its turn comes.
Plan plan_fairscale(const PlanRequest& request);

}  // namespace outsize
