#pragma once

#include "plan/planner.h"

namespace outsize {

// LR-CNN's OverL: the first layers run row by row, each row with the overlap it needs.
Plan plan_overl(const PlanRequest& request);

}  // namespace outsize
