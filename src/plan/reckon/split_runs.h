#pragma once

#include <vector>

#include "base/id_vector.h"
#include "base/table.h"
#include "plan/plan.h"

namespace outsize {

// A run that goes tile by tile among runs on whole values.
struct SplitRun {
  Pass pass;                   // its last op is the one that stands in `Runs`
  std::vector<ValueId> reads;  // what it reads and does not make, once each
  std::vector<ValueId> makes;  // what outlives it
  std::int64_t bytes = 0;      // of the pieces of a tile, and workspace
  double seconds = 0;          // over all tiles, copies included
  double copy_seconds = 0;     // of them, in which the link is busy
};

// Which runs of a plan go tile by tile.
struct Splits {
  static constexpr std::int32_t kWhole = -1;

  Table<std::int32_t> of_run;  // by run: index into `all`, or kWhole; empty: all are whole
  Table<SplitRun> all;
  // By value: whether it lives in a lower tier, and on the device in tiles only; only runs of `all` touch it. Empty: none does.
  IdVector<ValueId, bool> streamed;

  const SplitRun* at(std::int64_t run) const { return of_run.empty() || of_run[run] == kWhole ? nullptr : &all[of_run[run]]; }
  bool streams(ValueId value) const { return !streamed.empty() && streamed[value]; }
};

}  // namespace outsize
