#pragma once

#include "plan/planner.h"

namespace outsize {

Plan plan_keep(const PlanRequest& request);

}  // namespace outsize
