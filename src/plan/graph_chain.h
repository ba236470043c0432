#pragma once

#include "plan/chain.h"
#include "plan/spill.h"

namespace outsize {

// A training graph as a chain: its groups are the layers. x_{i+1} is everything that group i makes and backward reads, and what
// leads out of it; x_0 is the input. Temporary bytes are what is on the device during a group beyond the x and y of the model, so
// that the chain's M_peak is the graph's.
struct GraphChain {
  Chain chain;
  Runs runs;
  Lives lives;
  std::vector<std::vector<Swap>> swaps;                     // of each x_i
  std::vector<std::int64_t> forward_bytes, backward_bytes;  // by layer: the most during it, without the fixed ones
  std::int64_t fixed = 0;  // bytes that are there throughout: the budget of the chain is less by these
};
GraphChain chain_of(const PlanRequest& request);

// Which x_i leave, in a chain with so much memory over a link of so many bytes a second; nothing: it cannot be done.
using ChainDecision = std::function<std::optional<std::vector<bool>>(const Chain& chain, std::int64_t memory, double bandwidth)>;

// The plan in which the x_i that `decide` names leave; nothing leaves where there is no budget. Throws BudgetError.
Plan plan_by_chain(const PlanRequest& request, std::string_view planner, const ChainDecision& decide);

}  // namespace outsize
