#include <algorithm>

#include "graph/opdef.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/spill.h"

namespace outsize {

Planned<Plan> plan_vdnn_conv(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const Runs runs = eager_order(graph);
  const Lives lives = lives_of(request, costs_of(request), runs);
  std::vector<Swap> swaps = activation_gaps(lives);
  std::erase_if(swaps, [&](const Swap& swap) {
    const ValueId value = lives.all[swap.life].value;
    const std::vector<OpId>& readers = graph.value(value).consumers;
    return std::none_of(readers.begin(), readers.end(), [&](OpId reader) {
      const Op& op = graph.op(reader);
      return op.phase == Phase::forward && op.def->is_convolution() && op.inputs[0] == value;
    });
  });
  return spill_plan(request, "vdnn-conv", lives, {runs, std::move(swaps)});
}

}  // namespace outsize
