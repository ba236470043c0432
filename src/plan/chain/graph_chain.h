#pragma once

#include "plan/chain/chain.h"
#include "plan/reckon/lives.h"

namespace outsize {

// A training graph as a chain: its groups are the layers. x_{i+1} is everything that group i makes and backward reads, and what
// leads out of it; x_0 is the input. Temporary bytes are what is on the device during a group beyond the x and y of the model, so
// that the chain's M_peak is the graph's or more: a layer's activations and both its gradients are never there all at once.
struct GraphChain {
  Chain chain;
  Lives lives;
  std::vector<std::int64_t> forward_bytes, backward_bytes;  // by layer: the most during it, without the fixed ones
  std::int64_t fixed = 0;  // bytes that are there throughout: the budget of the chain is less by these
};
GraphChain chain_of(const PlanRequest& request);

}  // namespace outsize
