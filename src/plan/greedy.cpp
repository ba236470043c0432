#include "plan/greedy.h"

#include "plan/chain_offload.h"
#include "plan/swap_chain.h"

namespace outsize {

Plan plan_greedy(const PlanRequest& request) {
  return plan_by_chain(request, "greedy", [](const Chain& chain, std::int64_t memory, double) {
    return std::optional(greedy_offload(chain, memory));
  });
}

}  // namespace outsize
