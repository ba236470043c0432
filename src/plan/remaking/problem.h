#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/table.h"
#include "plan/reckon/lives.h"
#include "plan/reckon/split_runs.h"

namespace outsize {

// What runs at once: an op on whole values, or, with `tiles`, several ops tile by tile.
struct RunUnit {
  std::vector<OpId> ops;
  std::optional<SplitRun> tiles = std::nullopt;
  // The last ops of units that it must run behind, though it reads nothing of them: a unit that updates a weight, behind all that
  // reads the weight, and behind all that may need something made again with it.
  std::vector<OpId> behind = {};
};

// A step as the search for runs sees it: the ops of forward and backward, each numbered by its place in one order that is valid,
// and what updates hold. Values are those that come and go; weights and states are there throughout.
struct RemakeProblem {
  struct Value {
    std::int64_t bytes = 0;
    std::int32_t producer = -1;  // -1: it is there before the step
    bool lasts = false;          // it must be there after the step
    std::vector<std::int32_t> readers = {};
    std::vector<std::int32_t> updates = {};  // those that read it
  };
  // Values: where `input` ends, `output` may take its bytes.
  struct Overwrite {
    std::int32_t output = 0, input = 0;
  };
  struct Op {
    double seconds = 0;
    std::int64_t workspace = 0;
    std::vector<std::int32_t> inputs, outputs;  // values, once each
    std::vector<Overwrite> overwrites = {};     // in the order in which lowering considers them
    bool again = false;                         // it may run more than once: an op of forward that makes no output of the graph
    std::vector<std::int32_t> updates = {};     // those that wait for it
  };
  // An update runs once the first runs of some ops and all runs of others (the readers of what it replaces) are done; what it
  // reads stays until then.
  struct Update {
    std::vector<std::int32_t> after_first, after_all;  // ops, once each
    std::vector<std::int32_t> reads;                   // values
  };
  Table<Value> values;
  Table<Op> ops;
  Table<Update> updates;
  std::int64_t persistent = 0;  // bytes that are there throughout
  double update_seconds = 0;    // of all updates

  // What `ops`, `values` and `updates` stand for in the graph.
  Table<RunUnit> units;
  Table<ValueId> value_ids;
  std::vector<OpId> update_ids;

  bool is_again(std::int32_t value) const { return values[value].producer >= 0 && ops[values[value].producer].again; }
};

// Ops of forward and backward on whole values, in an order of the graph's ops.
Table<RunUnit> whole_units(const Graph& graph, const std::vector<OpId>& order);

// The problem of running these units, each behind what it reads. Updates are those of the graph, in its order.
RemakeProblem remake_problem(const PlanRequest& request, const OpCosts& costs, Table<RunUnit> units);

// The runs of the whole step that run the problem's ops in this sequence, each update as early as it can be.
struct SequenceRuns {
  Runs runs;
  Splits splits;
};
SequenceRuns runs_of(const RemakeProblem& problem, const std::vector<std::int32_t>& sequence);

}  // namespace outsize
