#pragma once

#include "plan/planner.h"

namespace outsize {

Plan plan_recompute_cheap(const PlanRequest& request);

}  // namespace outsize
