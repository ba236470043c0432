#pragma once

#include <algorithm>
#include <vector>

#include "plan/planner.h"
#include "plan/tiles/takeover.h"
#include "plan/tiles/tiles.h"

namespace outsize {

// What one pass asks for.
struct PassCost {
  std::int64_t bytes = 0;      // on the device beside what lives through it: the most that the pieces of a tile are at any op
  double compute_seconds = 0;  // over all tiles
  double in_seconds = 0;       // copies of streamed values to the device
  double out_seconds = 0;      // copies of streamed values from the device
  double disk_seconds = 0;     // reads and writes of streamed values that are on disk or come from the data
  double copy_seconds() const { return in_seconds + out_seconds; }
  // Of the pass: one thing after the other, or with copies ahead (Pass::ahead) all at once but for what the first tile loads and
  // the last stores.
  double seconds = 0;
};

// The boundaries of tiles of these extents of a value of that shape: `Pass::cuts`.
std::vector<std::vector<std::int64_t>> cuts_of(const Dims& shape, const Dims& extents);

// What a pass costs in tiles of these extents of its driver; reckoned from the first, a middle and the last tile of each dimension,
// with the plan's homes. `workspace`: of a tile's calls, by op of the pass; where it is not known it is taken in proportion to that
// of whole values. Throws UserError where the pass cannot be tiled so.
PassCost cost_of_pass(const PlanRequest& request, const Plan& plan, TileLines& lines, const Dims& extents,
                      const std::vector<std::int64_t>* workspace = nullptr);

// PassCost::bytes reckoned from a middle tile alone, with less work: those at the borders seldom ask for more.
std::int64_t typical_bytes(const PlanRequest& request, const Plan& plan, TileLines& lines, const Dims& extents,
                           const std::vector<std::int64_t>* workspace = nullptr);

// The workspace that the backend says the calls of a middle tile need, by op of the pass.
std::vector<std::int64_t> workspace_of_pass(const PlanRequest& request, TileLines& lines, const Dims& extents);

// The bytes of a tier during each step of a plan beside what passes hold in tiles: of the device weights and states, inputs, values
// that whole ops make and read, results of passes that have their home there, accumulators; of a lower tier what lives there.
// Results that take over the bytes of others take none of their own in the pass that does so.
std::vector<std::int64_t> resident_bytes(const PlanRequest& request, const Plan& plan, Tier tier,
                                         const std::vector<Takeover>& takeovers = {});

}  // namespace outsize
