#include "plan/dynprog.h"

#include "plan/chain_dynprog.h"
#include "plan/graph_chain.h"

namespace outsize {

Plan plan_dynprog(const PlanRequest& request) {
  const auto slots = static_cast<int>(request.options.integer(kDynprogSlots));
  return plan_by_chain(request, "dynprog", [slots](const Chain& chain, std::int64_t memory, double bandwidth) {
    return dynprog_offload(chain, memory, bandwidth, slots);
  });
}

}  // namespace outsize
