#pragma once

#include "plan/swap/spill.h"

namespace outsize {

// What choose_absences() comes to.
struct Absences {
  std::int64_t needed = 0;                   // the most bytes of the device during any run
  std::int32_t at = 0;                       // that run
  std::int64_t out_bytes = 0, in_bytes = 0;  // copied between tiers
};

// Decides which gaps between two uses values spend in a lower tier, so that no run needs more than `limit` bytes: adds to the
// swaps and the stays of a choice that has none yet. Where a run needs more, of the values that wait through it the one leaves
// that is used again last (Belady's rule), small ones only where no larger one is left.
Absences choose_absences(const PlanRequest& request, const Lives& lives, SpillChoice& choice, std::int64_t limit);

}  // namespace outsize
