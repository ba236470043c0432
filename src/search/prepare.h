#pragma once

#include <functional>
#include <limits>
#include <string>

#include "cost/profile.h"
#include "cost/target.h"
#include "outsize/budget.h"
#include "outsize/reports.h"
#include "plan/planner.h"
#include "program/program.h"
#include "program/trace.h"

namespace outsize {

// Debug builds leave this many bytes free around every piece, check them after every instruction and poison what a piece leaves
// behind; other builds pay nothing.
#ifdef OUTSIZE_DEBUG_MEMORY
inline constexpr std::int64_t kCanaryBytes = 256;
#else
inline constexpr std::int64_t kCanaryBytes = 0;
#endif

struct PrepareOptions {
  std::string planner;    // as choose_planner() takes it
  std::string plan_text;  // a plan in the text form, which is taken instead of a planner's; empty: none
  std::string plan_file;  // what messages call that plan
  Budgets budgets;
  bool windows = false;                                           // inputs may be read from the data window by window
  double most_seconds = std::numeric_limits<double>::infinity();  // of a step: slower plans are not wanted, and may be refused
  const PersistentLayout* layout = nullptr;                       // of the run that this is a further program of
  std::function<void(const std::string&)> progress = nullptr;     // is told what goes on, in the place of what was told before
};

// What one run needs beside its graph: the decisions, the checked program and its prediction.
struct Prepared {
  Plan plan;
  Program program;
  Trace predicted;
  double plan_seconds = 0;  // planning, lowering, checking and simulating
};

// Plans, lowers, checks and simulates. A plan whose packing exceeds the budget sends its planner back: for the same decisions with
// what is swapped on the device for less of the time, then with less room where pieces do not fit, and then with as much less, a
// few times; only then kernels with less workspace are chosen, if it is known how long they take, which the plan says; and only
// then the budget is refused. Where that, or more than `keep` takes, is what comes of it, and `keep` fits, its plan is taken,
// unless the planner was given options. Throws UserError for a plan that was given and does not check.
Planned<Prepared> prepare(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options);

// How often an instruction of the program runs in a step: as often as the loop that it is in.
std::int64_t repetitions(const Program& program, std::size_t instruction);

// What a plan pays, counted in the program with its loops unrolled.
PlanFigures figures_of(const Graph& graph, const Prepared& prepared);

// No plan within the device's budget can be faster (docs/bounds.md).
struct LowerBounds {
  double seconds = 0;        // one without tiles
  double tiled_seconds = 0;  // one with tiles: every op once, one after another, as measured whole or as estimated, if that is less
};
LowerBounds lower_bounds(const Graph& graph, Target& target, const Profile& profile, const PrepareOptions& options);

}  // namespace outsize
