#pragma once

#include "plan/planner.h"

namespace outsize {

// ZeRO-Offload (Ren et al. 2021) in f32: optimizer state and the weights that are updated live on the host, where the updates run;
// gradients go there as they are made. Each weight is brought to the device once a step, before its first use, and stays until its
// last; activations stay.
Plan plan_zero_offload(const PlanRequest& request);

}  // namespace outsize
