#pragma once

#include "plan/planner.h"

namespace outsize {

// LR-CNN's 2PS-H: as 2PS, between checkpoints.
Plan plan_two_ps_h(const PlanRequest& request);

}  // namespace outsize
