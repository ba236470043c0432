#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/remaking/sequence_search.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kRemakeMoves{
    .name = "moves", .initial = "1200000", .help = "changes of the plan that are tried, at most, in search of a faster one"};

// Small graphs are searched through with fewer moves: so many an op.
constexpr std::int64_t kMovesAnOp = 2000;
// Where a plan does not pack, so many further searches are made with more room left to packing.
constexpr int kTightenings = 5;
// Then limits are tried that fall by an octave / kPerOctave each and are the same for every budget: a plan that was found for one
// budget is found for larger ones too.
constexpr int kSteps = 32, kPerOctave = 32, kRefusals = 3;

class Remake {
 public:
  explicit Remake(const PlanRequest& request)
      : request_(request),
        costs_(costs_of(request)),
        problem_(
            remake_problem(request, costs_, whole_units(request.graph, eager_order(request.graph, narrow_order(request.graph))))),
        search_(problem_),
        moves_(std::min(request.options.integer(kRemakeMoves), problem_.ops.size() * kMovesAnOp)) {}

  Planned<Plan> plan() {
    const std::int64_t limit = limit_of(request_) - request_.gaps;
    std::int64_t room = 0;  // left to packing
    for (int attempt = 0; attempt <= kTightenings && room < limit; ++attempt) {
      const FoundSequence found = attempt == 0 ? search_.best(limit, moves_) : search_.nearby(limit - room, moves_ / 8, attempt);
      if (!found.found()) break;
      if (const std::int64_t missing = consider(found); missing > 0)
        room += std::max(missing, room / 2);
      else
        return *std::move(best_);
    }
    int refusals = 0;
    auto step = static_cast<int>(std::floor(kPerOctave * std::log2(static_cast<double>(limit))));
    for (int k = 0; k < kSteps && refusals < kRefusals; ++k, --step) {
      const auto bytes = static_cast<std::int64_t>(std::exp2(static_cast<double>(step) / kPerOctave));
      if (bytes > limit) continue;
      const std::vector<FoundSequence> seeds = search_.seeds(bytes);
      refusals += seeds.empty();
      if (!seeds.empty() && consider(seeds.front()) <= 0) return *std::move(best_);
    }
    return refusal();
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
    if (packed <= request_.budgets.device) best_ = *std::move(plan);
    return packed - request_.budgets.device;
  }

  // What was found needs so many bytes, and most at that op.
  Refusal refusal() {
    const SequenceSearch::Least least = search_.least();
    const SequenceRuns made = runs_of(problem_, least.sequence);
    const std::vector<std::int64_t> bytes = lives_of(request_, costs_, made.runs, {}, made.splits).bytes();
    const auto most = std::ranges::max_element(bytes);
    const std::int64_t needed = std::max(least_packed_, std::max(*most, limit_of(request_)) + 1);
    return refusal_of(request_, "remake", needed, made.runs[most - bytes.begin()]);
  }

  const PlanRequest& request_;
  const OpCosts costs_;
  const RemakeProblem problem_;
  SequenceSearch search_;
  const std::int64_t moves_;
  std::optional<Plan> best_;
  std::int64_t least_packed_ = 0;
};

}  // namespace

Planned<Plan> plan_remake(const PlanRequest& request) {
  const Runs runs = eager_order(request.graph);
  const OpCosts costs = costs_of(request);
  const Lives lives = lives_of(request, costs, runs);
  Planned<Plan> kept = spill_plan(request, "remake", lives, {runs});
  const bool fits = kept && (!request.limited() || !request.packed || request.packed(*kept) <= request.budgets.device);
  return fits ? std::move(kept) : Remake(request).plan();
}

std::vector<PlannerOption> remake_options() { return {kRemakeMoves}; }

}  // namespace outsize
