#include "plan/chain/chain_offload.h"
#include "plan/planners/planners.h"
#include "plan/swap/swap_chain.h"

namespace outsize {

Planned<Plan> plan_greedy(const PlanRequest& request) {
  return plan_by_chain(request, "greedy", [](const Chain& chain, std::int64_t memory, double) {
    return std::optional(greedy_offload(chain, memory));
  });
}

}  // namespace outsize
