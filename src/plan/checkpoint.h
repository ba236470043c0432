#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kCheckpointSegments{
    .name = "segments",
    .initial = "",
    .help = "segments of the network, one a layer at most [the fastest that fit; √n]",
    .least = 1};

// Checkpointing (Chen et al. 2016): only the values between segments of the network outlive forward; backward makes the rest of a
// segment again. The number of segments, where it is not given, is swept as users of PyTorch do, and the dynamic programme for
// heterogeneous chains (Beaumont et al., RR-9302) is asked what to drop and when, of three chains: the inside of a group and what
// leads out of it together, apart, or the inside always made again. Of all that fit, the fastest is taken; without a budget √n
// segments. The programme takes time with groups³ · slots: groups of a long network are put together until at most 64 are left, and
// there are 300 slots.
Plan plan_checkpoint(const PlanRequest& request);

}  // namespace outsize
