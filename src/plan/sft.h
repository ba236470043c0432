#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kSftTiles{"tiles", PlannerOption::Kind::integer, "",
                                         "tiles along each dimension of space, in every segment; else as few as fit", 1};
inline constexpr PlannerOption kSftGrid{.name = "grid",
                                        .kind = PlannerOption::Kind::word,
                                        .initial = "finer",
                                        .help = "numbers of tiles: powers of two, the same along height and width, or any",
                                        .words = "powers|finer"};
inline constexpr PlannerOption kSftCapacity{"capacity", PlannerOption::Kind::number, "",
                                            "ops that make more MiB than this are tiled; else the fastest of all sizes that fit",
                                            0.001};

// SFT (Listings 1 to 4 as corrected): values too large for the memory exist in tiles only, from the last value before them that is
// stored to the first after them; the rest runs on whole values. Throws BudgetError where no segments and tiles fit.
Plan plan_sft(const PlanRequest& request);

}  // namespace outsize
