#pragma once

#include "plan/planner.h"

namespace outsize {

// vDNN as the offload paper has it: the activations with the most time a byte to hide their copy behind, over all thresholds, all
// and every other of them.
Plan plan_vdnn(const PlanRequest& request);

}  // namespace outsize
