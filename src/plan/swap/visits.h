#pragma once

#include "plan/swap/spill.h"

namespace outsize {

// A stay on the device of a persistent value that lives in a lower tier.
struct Visit {
  ValueId value;
  std::int64_t bytes = 0;
  std::int32_t first = 0, last = 0;  // runs
  std::int32_t earliest = 0;         // it may come back from here on
  ValueId next;                      // its new version, where a run of the visit updates it
};

// The persistent values, by value, that live in a lower tier: those of the choice, but where the run has given them a home.
IdVector<ValueId, bool> away_of(const PlanRequest& request, IdVector<ValueId, bool> away);

// The same of a choice, but for what only tiles have on the device.
IdVector<ValueId, bool> away_of(const PlanRequest& request, const SpillChoice& choice);

// Whether the host's processor does it.
bool runs_on_host(const SpillChoice& choice, std::int32_t run);

// All such stays that the choice asks for, in the order of their first runs.
Table<Visit> visits_of(const PlanRequest& request, const SpillChoice& choice);

// tightest_bytes() of a choice with these visits.
Table<std::int64_t> tightest_bytes(const PlanRequest& request, const Lives& lives, const SpillChoice& choice,
                                   const Table<Visit>& visits);

}  // namespace outsize
