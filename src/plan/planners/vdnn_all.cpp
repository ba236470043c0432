#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/spill.h"

namespace outsize {

Planned<Plan> plan_vdnn_all(const PlanRequest& request) { return plan_all_away(request, "vdnn-all"); }

Planned<Plan> plan_all_away(const PlanRequest& request, std::string_view planner) {
  const Runs runs = eager_order(request.graph);
  const Lives lives = lives_of(request, costs_of(request), runs);
  return spill_plan(request, planner, lives, {runs, activation_gaps(lives)});
}

}  // namespace outsize
