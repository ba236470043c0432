#include "plan/dynprog.h"

#include "plan/chain_dynprog.h"
#include "plan/graph_chain.h"

namespace outsize {

Plan plan_dynprog(const PlanRequest& request) {
  return plan_by_chain(request, "dynprog", [](const Chain& chain, std::int64_t memory, double bandwidth) {
    constexpr int kSlots = 500;  // the paper's
    return dynprog_offload(chain, memory, bandwidth, kSlots);
  });
}

}  // namespace outsize
