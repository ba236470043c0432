#pragma once

#include <optional>

#include "plan/planner.h"
#include "plan/tiling/regions.h"

namespace outsize {

// What happens to values that a later pass of the same phase reads, most of all to those that a norm makes wait for its statistics.
enum class Remake : std::uint8_t {
  none,      // all are stored until their last reader: forward and backward run each op once but for cheap ones
  cheaper,   // value by value, whatever takes the fewest seconds where each copy of a stored one goes over the link
  once,      // none is stored from forward to backward: the first pass of backward that needs it makes it again for all of backward
  backward,  // the same, but each pass of backward makes it again
  all,       // each pass of forward too
};

inline constexpr PlannerOption kRemake{.name = "remake",
                                       .kind = PlannerOption::Kind::word,
                                       .initial = "",
                                       .help = "what waits between passes that is made again; else what is fastest, or fits",
                                       .words = "none|cheaper|once|backward|all"};
// As the user gave it, or nothing.
std::optional<Remake> remake_of(const PlannerOptions& options);

// Whether a plan that stores all and takes so long leaves anything to gain: it takes more than a twentieth longer than its ops.
bool remaking_may_gain(const PlanRequest& request, double seconds);

// The outputs of an op that are stored wherever output 0 is (OpDef::stored_beside): with them backward needs nothing of what both
// were made of.
std::vector<ValueId> stored_beside(const Graph& graph, OpId op);

// `Tiling::stored` of ops that are tiled and cut so, with what is stored beside.
IdVector<ValueId, Stored> stored_by(const PlanRequest& request, const Tiling& tiling, Remake remake);

}  // namespace outsize
