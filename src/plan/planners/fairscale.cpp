#include <algorithm>

#include "plan/analysis/groups.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/spill.h"

namespace outsize {

Planned<Plan> plan_fairscale(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const Runs runs = eager_order(graph);
  SpillChoice choice{runs};
  for (const Value& value : graph.values()) choice.away.push_back(value.persistent() && !value.producer);
  choice.on_host = host_updates(request, choice.away);
  const Lives lives = lives_of(request, costs_of(request), runs, choice.on_host);
  IdVector<ValueId, bool> between(graph.value_count(), false);
  for (const Group& group : groups_of(graph))
    if (group.output) between[group.output] = true;
  choice.swaps = activation_gaps(lives);
  std::erase_if(choice.swaps, [&](const Swap& swap) { return !between[lives.all[swap.life].value]; });
  return spill_plan(request, "fairscale", lives, std::move(choice));
}

}  // namespace outsize
