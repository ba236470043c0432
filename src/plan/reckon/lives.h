#pragma once

#include <functional>
#include <vector>

#include "base/alignment.h"
#include "base/bytes.h"
#include "base/table.h"
#include "cost/profile.h"
#include "plan/planner.h"
#include "plan/reckon/split_runs.h"

namespace outsize {

// Of a whole value on the device, as packed.
std::int64_t packed_bytes(const PlanRequest& request, ValueId value);

// The ops of a plan in the order they run; one that stands twice is recomputed. Positions are indices into it.
using Runs = Table<OpId>;

// The call that runs an op on whole values. Holds on to its arguments.
Call whole_call(const Graph& graph, const Op& op);

// Those of the request; reckoned here where it has none.
OpCosts costs_of(const PlanRequest& request);

// One stay of a value on the device if nothing is swapped: from the run that makes it (or makes it again) to the last that reads it
// before it is made again.
struct Life {
  ValueId value;
  std::int64_t bytes = 0;          // as packed: aligned
  std::int32_t made = -1;          // the run that makes it; -1: it is there before the first
  std::int32_t begin = 0;          // from here on its bytes count: after `made` where it takes over those of an input
  std::vector<std::int32_t> uses;  // runs that read it, ascending
  std::int32_t end = 0;            // the last run that it must outlive
  std::int32_t takes_over = -1;    // the life of the input whose bytes it takes over; -1: none
};

// What is on the device during each run.
struct Lives {
  Table<Life> all;                          // in the order they are made
  Table<std::int64_t> workspace;            // of each run
  Table<double> seconds;                    // of each run, by the profile
  std::int64_t persistent = 0;              // weights and states, there throughout
  std::int32_t backward = 0;                // the first run of backward: ops of forward after it are run again
  std::vector<std::int64_t> bytes() const;  // the sum during each run
};

// Whether there are readers of the value, and all are among `ops` (by op; empty: none).
bool only_read_by(const Graph& graph, ValueId value, const IdVector<OpId, bool>& ops);

// Follows `runs` as lowering does. Ops of `on_host` (by op; empty: none) take nothing of the device: what they read of it has left
// before, what they make is not there. Of a run that `splits` takes apart, a tile is workspace; what it streams has no life. Throws
// InternalError when one reads what no earlier run has made.
Lives lives_of(const PlanRequest& request, const OpCosts& costs, const Runs& runs, const IdVector<OpId, bool>& on_host = {},
               const Splits& splits = {});

// The most that the sum during a run may be: packing ends the last piece where its bytes end, not at a multiple.
inline std::int64_t limit_of(const PlanRequest& request) { return align_up(request.budgets.device, kAlignment); }

// The refusal of a planner that needs `needed` bytes of the device, and most at `op`.
Refusal refusal_of(const PlanRequest& request, std::string_view planner, std::int64_t needed, OpId op);
// Of a planner that has no plan for the graph, whatever the budget: "… has no plan for NAME: REASON".
Refusal refusal_of(const PlanRequest& request, std::string_view planner, std::string reason);

}  // namespace outsize
