#pragma once

#include "plan/planner.h"

namespace outsize {

// Offloading by a ratio (LR-CNN's baseline): the first activations, in the order they are made, wait in host memory, as many as the
// budget asks for; with no budget none.
Plan plan_offload_ratio(const PlanRequest& request);

}  // namespace outsize
