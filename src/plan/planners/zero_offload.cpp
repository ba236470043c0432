#include <limits>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/spill.h"

namespace outsize {

Planned<Plan> plan_zero_offload(const PlanRequest& request) {
  const Graph& graph = request.graph;
  SpillChoice choice{eager_order(graph)};
  choice.near = std::numeric_limits<std::int32_t>::max();
  choice.away.assign(graph.value_count(), false);
  for (const Op& op : graph.ops())
    if (op.phase == Phase::update)
      for (ValueId input : op.inputs)
        if (graph.value(input).persistent() && !graph.value(input).producer) choice.away[input] = true;
  choice.on_host = host_updates(request, choice.away);
  const Lives lives = lives_of(request, costs_of(request), choice.runs, choice.on_host);
  return spill_plan(request, "zero-offload", lives, std::move(choice));
}

}  // namespace outsize
