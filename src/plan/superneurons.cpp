#include "plan/superneurons.h"

#include <algorithm>

#include "graph/opdef.h"
#include "plan/recompute.h"
#include "plan/spill.h"

namespace outsize {

namespace {

Plan superneurons(const PlanRequest& request, const OpCosts& costs, const std::vector<bool>& cheap, Again again) {
  const Runs runs = with_recomputation(request.graph, cheap, again);
  const Lives lives = lives_of(request, costs, runs);
  return spill_plan(request, "superneurons", lives, {runs, activation_gaps(request.graph, runs, lives)});
}

}  // namespace

Plan plan_superneurons(const PlanRequest& request) {
  const Graph& graph = request.graph;
  std::vector<bool> cheap(static_cast<std::size_t>(graph.value_count()), false);
  // Where branches join, the result is a checkpoint: to make it again would take both branches back to where they parted.
  const auto joins = [&](const Op& op) {
    return std::count_if(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
             const Value& value = graph.value(input);
             return value.producer && value.role == Role::activation;
           }) > 1;
  };
  for (const Op& op : graph.ops())
    if (op.phase == Phase::forward && op.def->cheap({graph, op}) && !joins(op))
      for (ValueId output : op.outputs)
        // Statistics are small, and to make them again would take another pass over what they are of.
        if (graph.value(output).role != Role::statistic) cheap[static_cast<std::size_t>(output.index)] = true;
  const OpCosts costs = costs_of(request);
  if (request.options.has(kSuperneuronsRecompute)) {
    const bool speed = request.options.word(kSuperneuronsRecompute) == "speed";
    return superneurons(request, costs, cheap, speed ? Again::held : Again::remade);
  }
  try {
    return superneurons(request, costs, cheap, Again::held);
  } catch (const BudgetError&) {
    return superneurons(request, costs, cheap, Again::remade);
  }
}

}  // namespace outsize
