#pragma once

#include "plan/planner.h"

namespace outsize {

// LR-CNN's OverL-H: as OverL, between checkpoints.
Plan plan_overl_h(const PlanRequest& request);

}  // namespace outsize
