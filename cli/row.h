#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "session.h"

namespace outsize::cli {

// What plans are compared with.
struct Yardstick {
  std::int64_t keep_peak_bytes = 0;
  double keep_seconds = 0;
  LowerBounds bounds;
};
// By the times that the session knows now.
Yardstick yardstick_of(const Session& session, const PrepareOptions& options, const Prepared& keep);

// What one planner makes of a budget: what its plan costs, or why there is none.
struct PlanRow {
  std::string planner;  // its plain name
  PlannerOptions planner_options;
  std::optional<Refusal> refusal;   // none where it fits
  ByTier<std::int64_t> peak_bytes;  // of a refused one what the device would need, where that is known
  double step_seconds = 0;
  std::optional<double> plan_seconds;
  PlanFigures figures;

  bool fits() const { return !refusal; }
  // 0 where it fits; none where the planner has no plan for the graph, whatever the budget.
  std::optional<std::int64_t> missing_bytes() const;
};
// What no plan of its kind, with or without tiles, can be faster than.
double bound_seconds(const Yardstick& yardstick, const PlanRow& row);
PlanRow row_of(const Graph& graph, const PrepareOptions& options, const Prepared& prepared);
PlanRow row_of(const PrepareOptions& options, const Refusal& refusal);

// Plans `graph`; a refusal is a row too.
PlanRow plan_row(const Graph& graph, Session& session, const PrepareOptions& options);

// The object that `plan` prints and `compare` has a row of: its keys are what other tools rely on.
nlohmann::ordered_json to_json(const Session& session, const PrepareOptions& options, const Yardstick& yardstick,
                               const PlanRow& row);

// As resolve(), but a device that is not here has what its description says, not what is free on this machine.
PrepareOptions resolve_for_device(Session& session, const PlanFlags& flags, std::optional<Prepared>* keep = nullptr);

// Without data there are no samples whose sizes a plan could be for: tells on standard error of which size it is, where
// --image own was given.
void warn_of_own_sizes(const Session& session, const ModelFlags& model);

// The planners of what stands between the commas of --planners, with their options, in its order; all planners where there is
// nothing. Throws UserError for a planner, option or value that is none.
std::vector<std::string> planners_named(const std::vector<std::string>& parts);
// Adds --planners and what of the flags of a plan has a meaning for several planners at once.
void add_planners_flags(CLI::App& command, PlanFlags& flags, std::vector<std::string>& planners);

}  // namespace outsize::cli
