#pragma once

#include "plan/planner.h"

namespace outsize {

// SuperNeurons (Wang et al. 2018): results of convolutions and other matrix products are swapped, cheap ones made again in
// backward. What was made again is held for its other readers if that fits (speed-centric), or else made again for each
// (memory-centric).
Plan plan_superneurons(const PlanRequest& request);

}  // namespace outsize
