#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cost/profile.h"
#include "plan/options.h"
#include "plan/plan.h"

namespace outsize {

// What each op costs on whole values, by op: asked once, since many orders are tried.
struct OpCosts {
  std::vector<double> seconds;
  std::vector<std::int64_t> workspace;
};

// What a planner is given.
struct PlanRequest {
  const Graph& graph;
  const Profile& profile;
  StorageRule storage;
  std::int64_t device_budget = 0;  // bytes; 0: no limit
  std::int64_t gaps = 0;           // of them, left to packing: nothing leaves later or comes back earlier so that these are needed
  std::int64_t host_budget = 0;
  std::int64_t disk_budget = 0;
  std::map<std::string, Tier> homes = {};                        // of persistent values, where the run has given them one
  bool spill = false;                                            // values may wait on disk
  bool windows = false;                                          // inputs may be read from the data window by window
  std::function<std::int64_t(const Call&)> workspace = nullptr;  // that a call needs on the backend
  const OpCosts* costs = nullptr;                                // where they are known
  PlannerOptions options = {};                                   // that the user gave
};

// A planner: (graph, profile, budgets, options) → plan. It throws BudgetError when it knows that none of its plans fits.
struct Planner {
  std::string_view name;
  std::string_view help;
  Plan (*make)(const PlanRequest& request);
  std::vector<PlannerOption> options = {};
  bool refuses_less = false;  // what it refuses, it refuses with fewer bytes too
};

// All planners, in the order of `outsize compare`.
const std::vector<Planner>& planners();
// Throws UserError with the nearest name when there is none.
const Planner& find_planner(std::string_view name);

// A planner as users name it: "dynprog", "dynprog:slots=100".
struct PlannerChoice {
  const Planner& planner;
  PlannerOptions options;
};
// Throws UserError where planner, option or value is none that there is.
PlannerChoice choose_planner(std::string_view text);

}  // namespace outsize
