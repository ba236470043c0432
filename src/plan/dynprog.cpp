#include "plan/dynprog.h"

#include "plan/chain_dynprog.h"
#include "plan/chain_offload.h"
#include "plan/swap_chain.h"

namespace outsize {

Plan plan_dynprog(const PlanRequest& request) {
  const auto slots = static_cast<int>(request.options.integer(kDynprogSlots));
  return plan_by_chain(request, "dynprog", [slots](const Chain& chain, std::int64_t memory, double bandwidth) {
    const auto decisions = dynprog_offload(chain, memory, bandwidth, slots);
    // The model wants all of a layer's activations at once; the graph's come back one by one, and may fit where the model does not.
    return decisions ? decisions : greedy_offload(chain, memory);
  });
}

}  // namespace outsize
