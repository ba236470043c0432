#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kSuperneuronsRecompute{
    .name = "recompute",
    .kind = PlannerOption::Kind::word,
    .initial = "",
    .help = "what was made again is held (speed) or made again for each reader (memory) [as much is held as fits]",
    .words = "speed|memory"};

// SuperNeurons (Wang et al. 2018): results of convolutions and other matrix products are swapped, cheap ones made again in
// backward. What was made again is held for its other readers (speed-centric) or made again for each (memory-centric), as the
// option says. Without it, all is held if that fits, else as much as fits, the least recently used going first (TSPLIT's LRU).
Plan plan_superneurons(const PlanRequest& request);

}  // namespace outsize
