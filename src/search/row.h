#pragma once

#include "outsize/reports.h"
#include "search/prepare.h"

namespace outsize {

// By the times that the profile knows now.
Yardstick yardstick_of(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options,
                       const Prepared& keep);

// The options that the planner was given; none where a plan was given instead.
PlannerOptions given_options(const PrepareOptions& options);

PlanRow row_of(const Graph& graph, const Profile& profile, const PrepareOptions& options, const Prepared& prepared);
PlanRow row_of(const PrepareOptions& options, const Refusal& refusal);

// Plans `graph`; a refusal is a row too.
PlanRow plan_row(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options);

// The row of planner auto, which takes the best plan of all planners, where these are theirs.
PlanRow auto_row(const std::vector<PlanRow>& rows);

// These planners by their plain names and options, without repetition; all planners where none is named. Throws UserError for a
// planner, option or value that is none.
std::vector<std::string> planners_or_all(const std::vector<std::string>& names);

// Whether `a` comes before `b`: the fastest that fits first; then those that miss the fewest bytes; last, those that lack a whole
// tier, or have no plan for the graph.
bool comes_before(const PlanRow& a, const PlanRow& b);

}  // namespace outsize
