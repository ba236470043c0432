#pragma once

#include "plan/planner.h"

namespace outsize {

// vDNN-all (Rhu et al. 2016, as TSPLIT has it): every activation that backward reads waits in host memory in between.
Plan plan_vdnn_all(const PlanRequest& request);
// The same by the name of another.
Plan plan_all_away(const PlanRequest& request, std::string_view planner);

}  // namespace outsize
