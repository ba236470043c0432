#include "plan/plan.h"

#include <algorithm>

#include "graph/opdef.h"

namespace outsize {

bool rounds(const Graph& graph, const Plan& plan) {
  // Updates make each element of single elements, in the same way wherever it stands: that is why the host may run them, too.
  const auto may_sum_otherwise = [&](OpId id) {
    const Op& op = graph.op(id);
    return op.phase != Phase::update || !op.def->can_gather({graph, op});
  };
  return std::ranges::any_of(plan.kernels, [](const auto& entry) { return entry.second.rounding; }) ||
         std::ranges::any_of(plan.passes, [&](const Pass& pass) { return std::ranges::any_of(pass.ops, may_sum_otherwise); });
}

}  // namespace outsize
