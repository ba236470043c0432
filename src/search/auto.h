#pragma once

#include "search/prepare.h"

namespace outsize {

// Planner `auto` (docs/auto.md): `keep` where it fits; else the plan that is the fastest as simulated of those that all planners
// make of the budget, each asked as prepare() asks it. So no planner is faster, and a refusal, which is the nearest miss of all,
// says that none fits. Ends early where no plan can be faster than one that was found; with effort=first at the first that fits.
Planned<Prepared> prepare_auto(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options);

}  // namespace outsize
