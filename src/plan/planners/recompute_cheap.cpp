#include <algorithm>

#include "graph/opdef.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"

namespace outsize {

namespace {

constexpr std::int64_t kNever = -1;

struct Uses {
  std::int64_t last_forward = kNever;  // positions in the order
  std::int64_t first_backward = kNever;
  std::int64_t last = kNever;
};

}  // namespace

Planned<Plan> plan_recompute_cheap(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const std::vector<OpId> order = eager_order(graph);
  IdVector<ValueId, Uses> uses(graph.value_count());
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Op& op = graph.op(order[at]);
    for (ValueId input : op.inputs) {
      Uses& use = uses[input];
      use.last = static_cast<std::int64_t>(at);
      if (op.phase != Phase::backward) use.last_forward = static_cast<std::int64_t>(at);
      if (op.phase == Phase::backward && use.first_backward == kNever) use.first_backward = static_cast<std::int64_t>(at);
    }
  }

  IdVector<ValueId, bool> dropped(graph.value_count(), false);
  std::vector<std::vector<ValueId>> drop_after(order.size());
  std::vector<std::vector<OpId>> again_before(order.size());
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Op& op = graph.op(order[at]);
    const OpSite site{graph, op};
    if (op.phase != Phase::forward || op.outputs.size() != 1 || !op.def->cheap(site) || graph.is_output(op.outputs[0])) continue;
    const Uses& use = uses[op.outputs[0]];
    if (use.first_backward == kNever || use.last_forward == kNever || use.last_forward >= use.first_backward) continue;
    const bool inputs_stay = std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      const Value& value = graph.value(input);
      if (value.persistent() || value.role == Role::input) return true;
      return !dropped[input] && uses[input].last >= use.first_backward;
    });
    // An update of an input (a parameter) must not come between.
    const bool inputs_same = std::none_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      return graph.value(input).persistent() && uses[input].last < use.first_backward &&
             graph.op(order[uses[input].last]).phase == Phase::update;
    });
    if (!inputs_stay || !inputs_same) continue;
    dropped[op.outputs[0]] = true;
    drop_after[use.last_forward].push_back(op.outputs[0]);
    again_before[use.first_backward].push_back(order[at]);
  }

  Plan plan;
  plan.name = graph.name;
  plan.planner = "recompute-cheap";
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (OpId op : again_before[at]) plan.steps.push_back(RunStep{op});
    plan.steps.push_back(RunStep{order[at]});
    for (ValueId value : drop_after[at]) plan.steps.push_back(DropStep{value});
  }
  return plan;
}

}  // namespace outsize
