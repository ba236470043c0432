#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/remaking/group_search.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kRemakeMoves{
    .name = "moves", .initial = "1200000", .help = "changes of the plan that are tried, at most, in search of a faster one"};

constexpr PlannerOption kRemakeTiles{.name = "tiles",
                                     .kind = PlannerOption::Kind::word,
                                     .initial = "true",
                                     .help = "where one op alone is too large, a few around it may run tile by tile",
                                     .words = "true|false"};

// Small graphs are searched through with fewer moves: so many an op.
constexpr std::int64_t kMovesAnOp = 2000;
// Where a plan does not pack, so many further searches are made with more room left to packing.
constexpr int kTightenings = 5;
// Then limits are tried that fall by an octave / kPerOctave each and are the same for every budget: a plan that was found for one
// budget is found for larger ones too.
constexpr int kSteps = 32, kPerOctave = 32, kRefusals = 3;

// Where the largest op takes this part of the budget, tile groups are tried, unless the plan without them takes hardly longer than
// holding everything; with them, results equal those of `keep` to rounding only, so that they must be faster.
constexpr double kFull = 0.7, kHardlyLonger = 1.015, kFaster = 0.99;

// The search for a plan of one problem.
class Remake {
 public:
  Remake(const PlanRequest& request, const OpCosts& costs, RemakeProblem problem)
      : request_(request), costs_(costs), problem_(std::move(problem)), search_(problem_) {
    for (const RemakeProblem::Op& op : problem_.ops) step_seconds_ += op.seconds;
    step_seconds_ += problem_.update_seconds;
  }

  const RemakeProblem& problem() const { return problem_; }
  // Of every op once.
  double step_seconds() const { return step_seconds_; }

  struct Found {
    Plan plan;
    double seconds = 0;
  };
  std::optional<Found> run() {
    const std::int64_t moves = std::min(request_.options.integer(kRemakeMoves), problem_.ops.size() * kMovesAnOp);
    const std::int64_t limit = limit_of(request_) - request_.gaps;
    std::int64_t room = 0;  // left to packing
    for (int attempt = 0; attempt <= kTightenings && room < limit; ++attempt) {
      const FoundSequence found = attempt == 0 ? search_.best(limit, moves) : search_.nearby(limit - room, moves / 8, attempt);
      if (!found.found()) break;
      const std::int64_t missing = consider(found);
      if (missing <= 0) return std::move(found_);
      room += std::max(missing, room / 2);
    }
    int refusals = 0;
    auto step = static_cast<int>(std::floor(kPerOctave * std::log2(static_cast<double>(limit))));
    for (int k = 0; k < kSteps && refusals < kRefusals; ++k, --step) {
      const auto bytes = static_cast<std::int64_t>(std::exp2(static_cast<double>(step) / kPerOctave));
      if (bytes > limit) continue;
      const std::vector<FoundSequence> seeds = search_.seeds(bytes);
      refusals += seeds.empty();
      if (!seeds.empty() && consider(seeds.front()) <= 0) return std::move(found_);
    }
    return std::nullopt;
  }

  // What was found needs so many bytes, and most at that op.
  Refusal refusal() {
    const SequenceSearch::Least least = search_.least();
    const SequenceRuns made = runs_of(problem_, least.sequence);
    const std::vector<std::int64_t> bytes = lives_of(request_, costs_, made.runs, {}, made.splits).bytes();
    const auto most = std::ranges::max_element(bytes);
    const std::int64_t needed = std::max({least_packed_, *most, limit_of(request_) + 1});
    return refusal_of(request_, "remake", needed, made.runs[most - bytes.begin()]);
  }

 private:
  // Makes the plan of a sequence. Returns the bytes by which it exceeds the budget once packed.
  std::int64_t consider(const FoundSequence& found) {
    const SequenceRuns made = runs_of(problem_, found.sequence);
    const Lives lives = lives_of(request_, costs_, made.runs, {}, made.splits);
    Planned<Plan> plan = spill_plan(request_, "remake", lives, {.runs = made.runs, .splits = made.splits});
    if (!plan) return plan.refusal().missing();
    const std::int64_t packed = request_.packed ? request_.packed(*plan) : 0;
    least_packed_ = least_packed_ == 0 ? packed : std::min(least_packed_, packed);
    if (packed <= request_.budgets.device) found_ = {*std::move(plan), found.seconds};
    return packed - request_.budgets.device;
  }

  const PlanRequest& request_;
  const OpCosts& costs_;
  const RemakeProblem problem_;
  SequenceSearch search_;
  double step_seconds_ = 0;
  std::optional<Found> found_;
  std::int64_t least_packed_ = 0;
};

}  // namespace

Planned<Plan> plan_remake(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const OpCosts costs = costs_of(request);
  const Runs kept = eager_order(graph);
  Planned<Plan> whole = spill_plan(request, "remake", lives_of(request, costs, kept), {kept});
  if (whole && (!request.limited() || !request.packed || request.packed(*whole) <= request.budgets.device)) return whole;

  const std::vector<OpId> order = eager_order(graph, narrow_order(graph));
  Remake on_whole(request, costs, remake_problem(request, costs, whole_units(graph, order)));
  std::optional<Remake::Found> found = on_whole.run();
  const std::int64_t limit = limit_of(request) - request.gaps;
  const bool good = found && found->seconds < kHardlyLonger * on_whole.step_seconds();
  const bool one_is_large = static_cast<double>(largest_op(on_whole.problem())) > kFull * static_cast<double>(limit);
  if (!good && one_is_large && request.options.flag(kRemakeTiles)) {
    if (std::optional<RemakeProblem> grouped = with_tile_groups(request, costs, order, limit)) {
      std::optional<Remake::Found> tiled = Remake(request, costs, *std::move(grouped)).run();
      if (tiled && (!found || tiled->seconds < kFaster * found->seconds)) found = std::move(tiled);
    }
  }
  if (found) return std::move(found->plan);
  return on_whole.refusal();
}

std::vector<PlannerOption> remake_options() { return {kRemakeMoves, kRemakeTiles}; }

}  // namespace outsize
