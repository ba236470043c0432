#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kOffloadRatio{.name = "ratio",
                                             .kind = PlannerOption::Kind::number,
                                             .initial = "",
                                             .help = "share of the activations, by count, that leave [the least that fits]",
                                             .most = 1};

// Offloading by a ratio (LR-CNN's baseline): the first activations, in the order they are made, wait in host memory: the share
// given, rounded up, or as many as the budget asks for; with no budget none.
Plan plan_offload_ratio(const PlanRequest& request);

}  // namespace outsize
