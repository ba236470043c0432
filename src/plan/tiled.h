#pragma once

#include <limits>
#include <optional>

#include "plan/planner.h"
#include "plan/regions.h"

namespace outsize {

// How a step is tiled.
struct TiledChoice {
  std::int64_t layers = 0;  // groups (plan/groups.h) from the first that run tile by tile; the rest on whole values
  std::vector<bool> cuts;   // by value: stored whole between passes; empty: none
  enum class Halo : std::uint8_t {
    overlap,  // rows that two tiles need are computed by both
    share,    // they are computed once and carried on
    either,   // whichever is faster, pass by pass
  } halo = Halo::either;
  double most_seconds = std::numeric_limits<double>::infinity();  // a plan that takes longer is not wanted
};

struct TiledPlan {
  Plan plan;
  double seconds = 0;           // of a step, as reckoned
  std::int64_t bytes = 0;       // of the device, as reckoned
  std::int64_t host_bytes = 0;  // of the host
};

// Along what a network is cut: samples and space where most of what it makes are maps, samples alone where it is not.
enum class Cut : std::uint8_t { space, samples };
Cut cut_of(const Graph& graph);

// Whether an op can run box by box so: it makes or reduces values of which each such part stands by itself.
bool can_tile(const Graph& graph, OpId op, Cut cut);

// The fastest tiled plan of that choice within the budget: each pass has the largest tiles that its memory allows, and maps that
// only passes touch are streamed from host memory. Nothing where even the smallest tiles do not fit, or it takes too long; `needed`
// is then what the worst pass or op would take.
std::optional<TiledPlan> tiled_plan(const PlanRequest& request, std::string_view planner, const TiledChoice& choice,
                                    std::int64_t* needed, OpId* at, std::int64_t* host_needed = nullptr);

// The fastest of tiled plans that tile the layers up to one after which maps are smaller, or all; with checkpoints, also those that
// store values between them (where maps become smaller, every √n, third, second layer, after each). Throws BudgetError where none
// fits.
Plan fastest_tiled_plan(const PlanRequest& request, std::string_view planner, TiledChoice::Halo halo, bool checkpoints);

}  // namespace outsize
