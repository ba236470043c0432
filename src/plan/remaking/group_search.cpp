#include "plan/remaking/group_search.h"

#include <algorithm>
#include <numeric>

#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// So many values at most are in tiles; so many are tried each time.
constexpr int kMostValues = 24;
constexpr std::size_t kTried = 12;
// Values of a smaller part of the limit are not worth it.
constexpr std::int64_t kLeastPart = 64;
// Sequences are sought a little below the limit, which packing needs.
constexpr double kFilled = 0.985;
// A value goes into tiles to save time where it saves this part of it.
constexpr double kWorth = 0.002;

std::int64_t own_bytes(const RemakeProblem& problem, const RemakeProblem::Op& op) {
  std::int64_t bytes = problem.persistent + op.workspace;
  for (const std::int32_t input : op.inputs) bytes += problem.values[input].bytes;
  for (const std::int32_t output : op.outputs) bytes += problem.values[output].bytes;
  std::vector<std::int32_t> overwritten;
  for (const RemakeProblem::Overwrite& pair : op.overwrites) {
    if (std::ranges::find(overwritten, pair.output) != overwritten.end()) continue;
    overwritten.push_back(pair.output);
    bytes -= problem.values[pair.output].bytes;
  }
  return bytes;
}

class GroupSearch {
 public:
  GroupSearch(const PlanRequest& request, const OpCosts& costs, const std::vector<OpId>& order, std::int64_t limit)
      : request_(request),
        costs_(costs),
        groups_(request, order),
        limit_(static_cast<std::int64_t>(kFilled * static_cast<double>(limit))) {}

  std::optional<RemakeProblem> run() {
    std::optional<State> now = state_of({});
    while (now && now->values.size() < kMostValues) {
      std::optional<State> better = with_one_more(*now);
      if (!better && now->seconds == 0) better = with_two_more(*now);
      if (!better) break;
      now = std::move(better);
    }
    if (!now || now->seconds == 0 || now->values.empty()) return std::nullopt;
    return std::move(now->problem);
  }

 private:
  // With these values in tiles.
  struct State {
    std::set<ValueId> values;
    RemakeProblem problem;
    std::int64_t excess = 0;    // bytes by which single ops exceed the limit, summed over them
    std::int64_t least = 0;     // where that is none: bytes within which a sequence was found
    std::int32_t fullest = -1;  // the op at the peak of that
    double seconds = 0;         // where they are within the limit: of the fastest seed

    bool is_better_than(const State& other, double worth) const {
      if (excess != other.excess) return excess < other.excess;
      if ((seconds > 0) != (other.seconds > 0)) return seconds > 0;
      return seconds > 0 ? seconds < other.seconds * (1 - worth) : least < other.least;
    }
  };

  std::optional<State> with_one_more(const State& now) {
    std::optional<State> best;
    for (const ValueId value : candidates(now)) consider(now, {value}, best);
    return best;
  }
  // Where two ops are too large, what helps one alone may gain nothing.
  std::optional<State> with_two_more(const State& now) {
    std::optional<State> best;
    const std::vector<ValueId> values = candidates(now);
    for (const ValueId first : values)
      for (const ValueId second : values)
        if (first < second) consider(now, {first, second}, best);
    return best;
  }
  void consider(const State& now, const std::vector<ValueId>& more, std::optional<State>& best) {
    std::set<ValueId> values = now.values;
    values.insert(more.begin(), more.end());
    std::optional<State> tried = state_of(std::move(values));
    if (tried && tried->is_better_than(best ? *best : now, best ? 0 : kWorth)) best = std::move(tried);
  }

  std::optional<State> state_of(std::set<ValueId> values) {
    std::optional<Table<RunUnit>> units = groups_.units(values);
    if (!units) return std::nullopt;
    State state{.values = std::move(values), .problem = remake_problem(request_, costs_, *std::move(units))};
    for (const RemakeProblem::Op& op : state.problem.ops)
      state.excess += std::max<std::int64_t>(0, own_bytes(state.problem, op) - limit_);
    if (state.excess > 0) return state;
    SequenceSearch search(state.problem);
    const SequenceSearch::Least least = search.least();
    state.least = least.bytes;
    const RunSequence runs(state.problem, least.sequence);
    state.fullest = runs.op_of(runs.at_peak());
    const std::vector<FoundSequence> seeds = search.quick_seeds(limit_);
    if (!seeds.empty()) state.seconds = seeds.front().seconds;
    return state;
  }

  // Values of the ops that need the most, the largest first.
  std::vector<ValueId> candidates(const State& state) const {
    const RemakeProblem& problem = state.problem;
    constexpr double kFull = 0.7;  // of the limit
    std::set<std::pair<std::int64_t, ValueId>> found;
    for (std::int32_t k = 0; k < problem.ops.size(); ++k) {
      const RemakeProblem::Op& op = problem.ops[k];
      const std::int64_t own = own_bytes(problem, op);
      if (state.excess > 0 ? own <= limit_
                           : k != state.fullest && own < static_cast<std::int64_t>(kFull * static_cast<double>(limit_)))
        continue;
      for (const auto* values : {&op.inputs, &op.outputs})
        for (const std::int32_t value : *values)
          if (const ValueId id = problem.value_ids[value]; problem.values[value].bytes > limit_ / kLeastPart && groups_.may_be(id))
            found.insert({-problem.values[value].bytes, id});
    }
    std::vector<ValueId> values;
    for (const auto& [bytes, value] : found)
      if (values.size() < kTried) values.push_back(value);
    return values;
  }

  const PlanRequest& request_;
  const OpCosts& costs_;
  TileGroups groups_;
  const std::int64_t limit_;
};

}  // namespace

std::int64_t largest_op(const RemakeProblem& problem) {
  std::int64_t most = 0;
  for (const RemakeProblem::Op& op : problem.ops) most = std::max(most, own_bytes(problem, op));
  return most;
}

std::optional<RemakeProblem> with_tile_groups(const PlanRequest& request, const OpCosts& costs, const std::vector<OpId>& order,
                                              std::int64_t limit) {
  return GroupSearch(request, costs, order, limit).run();
}

}  // namespace outsize
