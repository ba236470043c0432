#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kCheckpointSegments{
    .name = "segments",
    .initial = "",
    .help = "segments of the network, one a layer at most [the fastest that fit; √n]",
    .least = 1};

// Checkpointing (Chen et al. 2016): only the values between segments of the network outlive forward; backward makes the rest of a
// segment again. The number of segments, where it is not given, is swept as users of PyTorch do: of those that fit, the fastest;
// without a budget √n.
Plan plan_checkpoint(const PlanRequest& request);

}  // namespace outsize
