#pragma once

#include <optional>
#include <set>
#include <utility>

#include "plan/reckon/lives.h"

namespace outsize {

// A value that waits in a lower tier between two of its uses. One with several such gaps leaves once, and comes back after each.
struct Swap {
  std::int32_t life = 0;    // index into Lives::all
  std::int32_t after = 0;   // the last run before the gap that reads or makes it
  std::int32_t before = 0;  // the first run after the gap that reads it
  Tier tier = Tier::host;
};

// The gap of a life between forward and backward: from its last reader in forward (or its maker) to its first in backward, be that
// an op of forward that is run again. Nothing where there is none, or nothing runs in between.
std::optional<Swap> gap_of(const Lives& lives, std::int32_t life);

// All such gaps of values that forward makes, in the order they are made.
std::vector<Swap> activation_gaps(const Lives& lives);

// What a planner has chosen.
struct SpillChoice {
  Runs runs;
  std::vector<Swap> swaps = {};
  // Persistent values, by value, that live in host memory (or on disk, once that is full): they are on the device only around the
  // runs that read them, and go back once they are updated. PlanRequest::homes is stronger.
  IdVector<ValueId, bool> away = {};
  // Updates, by op, that the host runs: all persistent values that they take are away, and what they read of the device goes out to
  // them. Empty: none. `Lives` must have been made with the same.
  IdVector<OpId, bool> on_host = {};
  // Uses of an away value no more runs apart than this are one visit: it stays on the device in between.
  std::int32_t near = 4;
  // An away value with a run that reads it: it stays on the device from the run before that reads it, however far that is.
  std::set<std::pair<ValueId, std::int32_t>> stays = {};
  // The swaps' own timing holds, to the run, whatever room there is: a value is there until after `after`, and again from before
  // `before`, which need not be runs that read it.
  bool timed = false;
  // Runs that go tile by tile. `Lives` must have been made with the same.
  Splits splits = {};
};

// The updates, by op, that the host can run: those whose persistent values are all away. Empty where there is no host memory.
IdVector<OpId, bool> host_updates(const PlanRequest& request, const IdVector<ValueId, bool>& away);

// The bytes during each run when everything is as tight as can be.
Table<std::int64_t> tightest_bytes(const PlanRequest& request, const Lives& lives, const SpillChoice& choice);

// The steps of a plan: each value starts to leave when it is made, and stays on the device until it has left or the room is needed;
// it comes back as early as the room allows, but not before it has to. Refused when the tightest timing exceeds the budget, or
// where something must leave and there is no lower tier.
Planned<Plan> spill_plan(const PlanRequest& request, std::string_view planner, const Lives& lives, SpillChoice choice);

}  // namespace outsize
