#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"

namespace outsize {

// Weights that the device need not hold whole: the ops that read one, the op that makes its gradient and the one that updates it
// run in passes, each tile with its rows of the weight, of the gradient and of the optimizer's states, which live in host memory.

// What touches a parameter in a step.
struct WeightUses {
  std::vector<OpId> readers;  // forward, and the gradient of what it is multiplied by
  OpId gradient;              // none in evaluation, as the rest
  OpId update;
  std::vector<ValueId> states;
};

// Nothing where a use cannot be split, or the gradient is wanted whole.
std::optional<WeightUses> weight_uses(const Graph& graph, ValueId weight);

// The dimension of an op's output 0 of which a part needs only a part of the parameter that it reads; −1 where there is none.
int dim_that_cuts_weight(const Graph& graph, OpId op, ValueId weight);

// The parameters that can be split so, and of which every use runs on whole values in the plan.
std::vector<ValueId> splittable_weights(const Graph& graph, const Plan& plan);

// Bytes of the parameter with the optimizer's states that are split with it.
std::int64_t bytes_with_states(const Graph& graph, ValueId weight);

// Makes passes of all uses of these parameters, which must be splittable; each pass has one tile yet.
void split_weights(const Graph& graph, Plan& plan, const std::vector<ValueId>& weights);

// The dimension of the driver that tiles of such a pass are to be cut along; −1 of any other pass.
int weight_dim(const Graph& graph, const Plan& plan, const Pass& pass);

}  // namespace outsize
