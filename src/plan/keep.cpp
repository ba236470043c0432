#include "plan/keep.h"

#include "plan/order.h"

namespace outsize {

// Everything stays on the device from its production to its last use, as frameworks do.
Plan plan_keep(const PlanRequest& request) {
  Plan plan;
  plan.name = request.graph.name;
  plan.planner = "keep";
  for (OpId op : eager_order(request.graph)) plan.steps.push_back(RunStep{op});
  return plan;
}

}  // namespace outsize
