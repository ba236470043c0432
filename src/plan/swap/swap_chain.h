#pragma once

#include "plan/chain/chain.h"
#include "plan/swap/spill.h"

namespace outsize {

// A training graph as the chain of the offloading paper, one x_i for each value that waits between forward and backward: F_i ends
// where x_{i+1} is made, B_i begins where x_i is first read. Small values next to each other are one x_i; x_{L+1} is nothing. They
// stand in the order that backward reads them, the last first. Everything else (gradients, what forward alone reads, workspace) is
// temporary bytes, so that the chain's M_peak is the graph's; what a later op of forward still reads may leave in the chain before
// it may in the graph.
struct SwapChain {
  Chain chain;
  Runs runs;
  Lives lives;
  std::vector<std::vector<Swap>> swaps;  // of each of x_0 … x_L
  std::vector<OpId> first;               // op of each F_i
  std::int64_t fixed = 0;                // bytes that are there throughout: the budget of the chain is less by these
};
SwapChain swap_chain_of(const PlanRequest& request);

// Which x_i leave, in a chain with so much memory over a link of so many bytes a second; nothing: it cannot be done.
using ChainDecision = std::function<std::optional<std::vector<bool>>(const Chain& chain, std::int64_t memory, double bandwidth)>;

// The plan in which the x_i that `decide` names leave; nothing leaves where there is no budget.
Planned<Plan> plan_by_chain(const PlanRequest& request, std::string_view planner, const ChainDecision& decide);

}  // namespace outsize
