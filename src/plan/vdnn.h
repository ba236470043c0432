#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kVdnnThreshold{
    .name = "threshold",
    .kind = PlannerOption::Kind::number,
    .initial = "",
    .help = "seconds of forward a GB (10⁹ bytes) of activation, at or above which it leaves [the fastest]"};

// vDNN as the offload paper has it: the activations with the most time a byte to hide their copy behind, at the threshold given or
// over all thresholds, all and every other of them; at the lowest as `vdnn-all` where the chain's model refuses.
Plan plan_vdnn(const PlanRequest& request);

}  // namespace outsize
