#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_vector.h"
#include "cost/profile.h"
#include "cost/target.h"
#include "outsize/budget.h"
#include "plan/options.h"
#include "plan/plan.h"

namespace outsize {

// What each op costs on whole values, by op, and what each value takes: asked once, since many orders are tried.
struct OpCosts {
  IdVector<OpId, double> seconds;
  IdVector<OpId, std::int64_t> workspace;
  IdVector<ValueId, std::int64_t> bytes;  // as packed
};

// What a planner is given.
struct PlanRequest {
  const Graph& graph;
  const Profile& profile;
  StorageRule storage;
  Budgets budgets = {};
  std::int64_t gaps = 0;  // bytes of the device's budget that planners leave free, because packing will lose them between pieces
  std::vector<std::int64_t> gaps_at = {};  // the same, by run, of those beside which pieces did not fit
  // Where a run waits for copies, those before it need not run as early as they could, nor what is swapped be on the device beside
  // them. Of the time for which no run would wait, the part for which it still is: less makes plans easier to pack.
  double linger = 1;
  std::map<std::string, Tier> homes = {};                        // of persistent values, where the run has given them one
  bool windows = false;                                          // inputs may be read from the data window by window
  std::function<std::int64_t(const Call&)> workspace = nullptr;  // that a call needs on the backend
  const OpCosts* costs = nullptr;                                // where they are known
  // The bytes of the device that a plan takes once it is lowered and its pieces are packed. Empty: not to be known while planning.
  std::function<std::int64_t(const Plan&)> packed = nullptr;
  // A plan whose step takes longer is not wanted. Planners that know early that theirs do may refuse instead.
  double most_seconds = std::numeric_limits<double>::infinity();
  PlannerOptions options = {};  // that the user gave
  // What a planner keeps from one request to the next, of the same graph and costs, while its plan is sought. Null: nothing.
  std::any* kept = nullptr;

  bool limited() const { return budgets.device < kNoLimit; }
  // Whether values can wait anywhere but on the device.
  bool has_lower_tier() const { return budgets.host > 0 || budgets.disk > 0; }
};

inline constexpr std::string_view kOurs = "ours";  // Planner::source of what no paper has

// A planner: (graph, profile, budgets, options) → plan, or a refusal when it knows that none of its plans fits.
struct Planner {
  std::string_view name;
  std::string_view help;
  std::string_view source;  // the paper or framework that it follows, or kOurs
  Planned<Plan> (*make)(const PlanRequest& request);
  std::vector<PlannerOption> options = {};
  bool refuses_less = false;  // what it refuses, it refuses with fewer bytes too
  bool retimes = false;       // asked with less of PlanRequest::linger, it soon makes the same decisions with other times
};

// All planners, in the order of `outsize compare`.
const std::vector<Planner>& planners();
// The planner where none is named, which asks all of these (search/auto.h). It makes no plan by itself: `make` is null.
const Planner& auto_planner();
inline constexpr PlannerOption kAutoEffort{.name = "effort",
                                           .kind = PlannerOption::Kind::word,
                                           .initial = "full",
                                           .help = "full: the fastest plan of all planners; first: the first that fits",
                                           .words = "full|first"};
// One of these, or auto. Throws UserError with the nearest name when there is none.
const Planner& find_planner(std::string_view name);

// A planner as users name it: "dynprog", "dynprog:slots=100".
struct PlannerChoice {
  const Planner& planner;
  PlannerOptions options;
};
// Throws UserError where planner, option or value is none that there is.
PlannerChoice choose_planner(std::string_view text);

}  // namespace outsize
