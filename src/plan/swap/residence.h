#pragma once

#include "plan/swap/spill.h"

namespace outsize {

// Where persistent values live, in parts of 1/kParts of all their bytes. A step is a circle: what is updated last in one is read
// first in the next. So what stays whole is taken from there, and nothing waits for copies at either end of a step. The rest is
// dealt out evenly along the circle, so that link, host and device have something to do at all times.
struct Residence {
  static constexpr std::int64_t kParts = 64;

  std::int64_t whole = kParts;  // on the device, with optimizer state
  // Of what is left, again in parts:
  std::int64_t state_away = 0;  // weights stay, optimizer state comes for its update by the device and leaves
  std::int64_t all_away = 0;    // weights come for the ops that read them, both for the update by the device
  // The rest lives in host memory, and the host updates it; or is `all_away`, where there is no host memory.

  bool operator==(const Residence&) const = default;
};

// The persistent values of a graph, in the units that one update takes of them.
class Residents {
 public:
  explicit Residents(const PlanRequest& request);

  // Of all of them.
  std::int64_t bytes() const { return bytes_; }

  // No step takes fewer seconds: the host for its updates, where it is another processor than the device, and the links for what
  // is away, each of which comes and leaves once at least.
  double least_seconds(const SpillChoice& choice) const;
  // Sets what is away, what the host updates, and where in the runs it does.
  void settle(const Residence& residence, const OpCosts& costs, SpillChoice& choice) const;

 private:
  struct Unit {
    std::vector<ValueId> weights, states;
    std::int64_t bytes = 0;
    OpId update;  // none: nothing updates the value
    bool small = false;
  };

  void add(Unit& unit, ValueId value, IdVector<ValueId, bool>& known) const;
  Runs with_updates_when_done(const SpillChoice& choice, const OpCosts& costs) const;

  const PlanRequest& request_;
  std::vector<Unit> units_;  // those that are updated last first
  std::int64_t bytes_ = 0;
};

}  // namespace outsize
