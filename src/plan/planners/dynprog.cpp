#include "plan/chain/chain_dynprog.h"
#include "plan/chain/chain_offload.h"
#include "plan/planners/planners.h"
#include "plan/swap/swap_chain.h"

namespace outsize {

namespace {

constexpr PlannerOption kDynprogSlots{
    .name = "slots", .initial = "500", .help = "parts that the memory is counted in", .least = 1, .most = 10000};

}  // namespace

Planned<Plan> plan_dynprog(const PlanRequest& request) {
  const auto slots = static_cast<int>(request.options.integer(kDynprogSlots));
  return plan_by_chain(request, "dynprog", [slots](const Chain& chain, std::int64_t memory, double bandwidth) {
    const auto decisions = dynprog_offload(chain, memory, bandwidth, slots);
    // The model wants all of a layer's activations at once; the graph's come back one by one, and may fit where the model does not.
    return decisions ? decisions : greedy_offload(chain, memory);
  });
}

std::vector<PlannerOption> dynprog_options() { return {kDynprogSlots}; }

}  // namespace outsize
