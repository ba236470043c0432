#include <algorithm>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/spill.h"

namespace outsize {

Planned<Plan> plan_keep(const PlanRequest& request) {
  // A further program of a run whose weights live in a lower tier must fetch them.
  if (std::any_of(request.homes.begin(), request.homes.end(), [](const auto& home) { return home.second != Tier::device; })) {
    const Runs runs = eager_order(request.graph);
    return spill_plan(request, "keep", lives_of(request, costs_of(request), runs), {runs});
  }
  Plan plan;
  plan.name = request.graph.name;
  plan.planner = "keep";
  for (OpId op : eager_order(request.graph)) plan.steps.push_back(RunStep{op});
  return plan;
}

}  // namespace outsize
