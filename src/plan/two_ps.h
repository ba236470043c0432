#pragma once

#include "plan/planner.h"

namespace outsize {

// LR-CNN's 2PS: the first layers run row by row, and rows that the next needs too are carried to it.
Plan plan_two_ps(const PlanRequest& request);

}  // namespace outsize
