#pragma once

#include "plan/planner.h"

namespace outsize {

inline constexpr PlannerOption kTsplitSplit{.name = "split",
                                            .kind = PlannerOption::Kind::word,
                                            .initial = "true",
                                            .help = "values may be split; false is what --no-split asks for",
                                            .words = "true|false"};
inline constexpr PlannerOption kTsplitPieces{
    .name = "pieces", .initial = "64", .help = "a value is split into 2, 4, 8 … pieces, so many at most (p_num)", .least = 2};

// TSPLIT (Nie et al., ICDE 2022), with the corrections of its equations: ops run in the order of Algorithm 1, and Algorithm 2 walks
// over them. Where one lacks room, of all values that wait through it the one leaves (equation 3, by what other copies leave of the
// link) or is made again (4), or of the values that it reads or makes itself the one is split into pieces along samples, tokens or
// rows (5, 6), whose seconds a byte gained are the fewest; again and again until there is room.
//
// A split value is never whole on the device: the ops that touch it run piece by piece, and what other ops are to read of it waits
// in host memory. So a split gains all but its pieces, where the paper's gains what the pieces of an input leave to an output; and
// values that an op makes are split as well as those that it reads. Costs of pieces are those of the calls that would run.
Plan plan_tsplit(const PlanRequest& request);

}  // namespace outsize
