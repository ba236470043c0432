#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kDynprogSlots{
    .name = "slots", .initial = "500", .help = "parts that the memory is counted in", .least = 1, .most = 10000};

// DynProg (Beaumont et al. 2020, Algorithm 1 in slots): the activations whose leaving costs the least idle time; below the
// least memory of the algorithm's model, those of Greedy.
Plan plan_dynprog(const PlanRequest& request);

}  // namespace outsize
