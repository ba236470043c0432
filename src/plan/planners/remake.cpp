#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/remaking/group_search.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kRemakeMoves{
    .name = "moves", .initial = "400000", .help = "changes of the plan that are tried, at most, in search of a faster one"};

constexpr PlannerOption kRemakeTiles{.name = "tiles",
                                     .kind = PlannerOption::Kind::word,
                                     .initial = "true",
                                     .help = "where one op alone is too large, a few around it may run tile by tile",
                                     .words = "true|false"};

// Small graphs are searched through with fewer moves: so many an op.
constexpr std::int64_t kMovesAnOp = 2000;
// With more ops than this a move takes longer and there are fewer of them, so that planning is bounded: by the square of how many.
constexpr double kMostOps = 2000;
// Where a plan does not pack, others are sought with more room left to packing: more of them for small graphs, which hold few and
// large pieces.
constexpr std::int64_t kPackingLooks = 10000, kLeastPackings = 10, kMostPackings = 28;
constexpr std::int64_t kPackingPart = 16;  // of the moves, for each
constexpr std::int64_t kFinest = 400;      // the least part of the budget that counts
constexpr std::int64_t kParts = 6;         // of the room
constexpr std::int64_t kWithoutRoom = 3;   // attempts before any is left
// Where none packs, limits are tried that fall by an octave / kPerOctave each and are the same for every budget: a plan that was
// found for one budget is found for larger ones too.
constexpr int kSteps = 32, kPerOctave = 32, kRefusals = 3;

// Where the largest op takes this part of the budget, tile groups are tried, unless the plan without them takes hardly longer than
// holding everything; with them, results equal those of `keep` to rounding only, so that they must be faster.
constexpr double kFull = 0.715, kHardlyLonger = 1.015, kFaster = 0.99;
// The parts of the limit that tile groups are sought for, one after the other until a plan packs.
constexpr std::array kGroupParts{1.0, 0.96, 0.92};
constexpr std::int64_t kFewer = 2;  // parts of the moves, one of which is for tile groups where there is a plan without

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
  // With one part of so many of the moves.
  std::optional<Found> run(std::int64_t parts = 1) {
    const double part = std::min(1.0, kMostOps / static_cast<double>(problem_.ops.size()));
    const auto most = static_cast<std::int64_t>(part * part * static_cast<double>(request_.options.integer(kRemakeMoves)));
    const std::int64_t moves = std::min(most, problem_.ops.size() * kMovesAnOp) / parts;
    const std::int64_t limit = limit_of(request_) - request_.gaps;
    if (largest_op(problem_) > limit) return std::nullopt;
    // How well pieces pack differs from sequence to sequence: once one packs, others are sought with parts of the room that it had.
    const std::int64_t packings =
        moves == 0 ? 1 : std::clamp<std::int64_t>(kPackingLooks / problem_.ops.size(), kLeastPackings, kMostPackings);
    std::int64_t room = 0, enough = -1;  // bytes left to packing, and those of the fastest that packs
    std::int64_t refused = limit;        // the least room with which no sequence was found
    for (std::int64_t attempt = 0; attempt < packings; ++attempt) {
      if (enough >= 0)
        room = enough / kParts * (attempt % kParts);
      else if (refused < limit)
        room = refused / kParts * (attempt % kParts);
      else
        room += attempt <= kWithoutRoom ? 0 : std::max(missing_ / 4, limit / kFinest);
      if (room >= limit / 2 || (enough >= 0 && enough < limit / kFinest)) break;
      FoundSequence made = attempt == 0 ? search_.best(limit, moves) : search_.nearby(limit - room, moves / kPackingPart, attempt);
      if (!made.found() && attempt > 0 && enough < 0 && refused == limit) made = search_.best(limit - room, moves / 4);
      if (!made.found()) {
        if (attempt == 0) break;
        if (enough < 0 && room > 0) refused = std::min(refused, room);
        continue;
      }
      if (found_ && made.seconds >= found_->seconds) continue;
      if (!consider(made)) continue;
      if (attempt == 0) return std::move(found_);
      if (enough < 0 || room < enough) enough = room;
    }
    if (found_) return std::move(found_);
    int refusals = 0;
    auto step = static_cast<int>(std::floor(kPerOctave * std::log2(static_cast<double>(limit))));
    for (int k = 0; k < kSteps && refusals < kRefusals; ++k, --step) {
      const auto bytes = static_cast<std::int64_t>(std::exp2(static_cast<double>(step) / kPerOctave));
      if (bytes > limit) continue;
      const std::vector<FoundSequence> seeds = search_.seeds(bytes);
      refusals += seeds.empty();
      if (!seeds.empty() && consider(seeds.front())) return std::move(found_);
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
  // Makes the plan of a sequence, and takes it where it packs and none that is faster was taken. Returns whether it packs.
  bool consider(const FoundSequence& made) {
    const SequenceRuns runs = runs_of(problem_, made.sequence);
    const Lives lives = lives_of(request_, costs_, runs.runs, {}, runs.splits);
    Planned<Plan> plan = spill_plan(request_, "remake", lives, {.runs = runs.runs, .splits = runs.splits});
    if (!plan) {
      missing_ = plan.refusal().missing();
      return false;
    }
    const std::int64_t packed = request_.packed ? request_.packed(*plan) : 0;
    least_packed_ = least_packed_ == 0 ? packed : std::min(least_packed_, packed);
    missing_ = packed - request_.budgets.device;
    if (missing_ <= 0 && (!found_ || made.seconds < found_->seconds)) found_ = {*std::move(plan), made.seconds};
    return missing_ <= 0;
  }

  const PlanRequest& request_;
  const OpCosts& costs_;
  const RemakeProblem problem_;
  SequenceSearch search_;
  double step_seconds_ = 0;
  std::optional<Found> found_;
  std::int64_t least_packed_ = 0;
  std::int64_t missing_ = 0;  // bytes that the plan considered last exceeds the budget by
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
    GroupSearch groups(request, costs, order, limit, request.options.integer(kRemakeMoves));
    std::optional<Remake::Found> tiled;
    for (const double part : kGroupParts) {
      std::optional<RemakeProblem> grouped = groups.run(static_cast<std::int64_t>(part * static_cast<double>(limit)));
      if (!grouped) break;
      tiled = Remake(request, costs, *std::move(grouped)).run(found ? kFewer : 1);
      if (tiled || found) break;
    }
    if (tiled && (!found || tiled->seconds < kFaster * found->seconds)) found = std::move(tiled);
  }
  if (found) return std::move(found->plan);
  return on_whole.refusal();
}

std::vector<PlannerOption> remake_options() { return {kRemakeMoves, kRemakeTiles}; }

}  // namespace outsize
