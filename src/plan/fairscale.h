#pragma once

#include "plan/planner.h"

namespace outsize {

// FairScale's OffloadModel: weights and optimizer state live in host memory and are on the device only around the ops that read
// them, shard by shard; activations between layers wait in host memory; gradients go to the host, where the updates run.
Plan plan_fairscale(const PlanRequest& request);

}  // namespace outsize
