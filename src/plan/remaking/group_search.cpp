#include "plan/remaking/group_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/opdef.h"
#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// Values of a smaller part of the limit are not worth it.
constexpr std::int64_t kLeastPart = 100;
// Sequences are sought a little below the limit, which packing needs.
constexpr double kFilled = 0.985;
// The effort: ops that eviction may walk over for each move, of which a million take about a second; a third of that where another
// limit is tried. What a unit costs in tiles is as much work as walking over so many, and a look at a known state as over so few.
constexpr double kLooksAMove = 2.5;
constexpr std::int64_t kLaterPart = 3, kLooksAUnit = 400, kLooksAState = 20;
// Temperatures, as parts of the step.
constexpr double kHottest = 0.002, kColdest = 0.0003;
// What does not fit costs so many steps, and as many times this more as bytes lack in parts of the limit; where single ops do not
// fit, it costs more than anything else.
constexpr double kUnfit = 8, kExcess = 0.4, kOpsExcess = 100;
// The least bytes are known to such a part of the limit.
constexpr std::int64_t kByteSteps = 200;
// So many rules of eviction are tried first; what they find that costs so many times what it may is given up.
constexpr std::size_t kLeadingRules = 2;
constexpr double kHopeless = 1.02;
// A change that costs no less than so many times what there was gains nothing.
constexpr double kGain = 0.9999;
// So many of the best are annealed, with so many moves, before one is taken.
constexpr std::size_t kFinalists = 4;
constexpr std::int64_t kMovesOfFinalist = 40000;

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

std::vector<EvictionRule> rules() {
  std::vector<EvictionRule> all;
  for (const double distance : {0.6, 0.3, 1.0})
    for (const bool seconds : {false, true}) all.push_back({1, distance, seconds, {}});
  return all;
}

}  // namespace

class GroupSearch::Search {
 public:
  Search(const PlanRequest& request, const OpCosts& costs, const std::vector<OpId>& order, std::int64_t limit, std::int64_t moves)
      : request_(request),
        graph_(request.graph),
        costs_(costs),
        groups_(request, costs, order, limit),
        effort_(static_cast<std::int64_t>(kLooksAMove * static_cast<double>(moves))),
        limit_(static_cast<std::int64_t>(kFilled * static_cast<double>(limit))) {
    for (const double seconds : costs.seconds) step_ += seconds;
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const ValueId value(v);
      if (costs.bytes[value] * kLeastPart < limit_) continue;
      if (groups_.may_be_with(value)) candidates_.push_back({value, Kind::with});
      if (!groups_.may_be_within(value)) continue;
      candidates_.push_back({value, Kind::within_all});
      const std::vector<OpId>& readers = graph_.value(value).consumers;
      if (readers.size() < 2) continue;
      // What is cheap to make is read in tiles by all; anything else perhaps by what reads it last.
      const Op& maker = graph_.op(graph_.value(value).producer);
      if (maker.def->cheap({graph_, maker})) continue;
      for (const OpId reader : readers)
        if (graph_.op(reader).phase == Phase::backward) {
          candidates_.push_back({value, Kind::within_one, reader});
          if (groups_.may_be_with(graph_.op(reader).outputs[0])) candidates_.push_back({value, Kind::within_chain, reader});
        }
    }
    std::ranges::stable_sort(candidates_, std::greater<>(),
                             [&](const Candidate& candidate) { return costs_.bytes[candidate.value]; });
  }

  std::optional<RemakeProblem> run(std::int64_t limit) {
    limit_ = static_cast<std::int64_t>(kFilled * static_cast<double>(limit));
    known_.clear();
    all_looks_ = looks_ + (finalists_.empty() ? effort_ : effort_ / kLaterPart);
    std::optional<State> now;
    for (const State& found : std::exchange(finalists_, {}))
      if (std::optional<State> again = state_of(found.in_tiles); again && (!now || again->cost < now->cost)) now = std::move(again);
    if (!now) now = best_seed();
    make_ops_fit(*now);
    descend(*now, looks_ + (all_looks_ - looks_) / 3);
    anneal_values(*now, looks_ + (all_looks_ - looks_) * 3 / 4);
    if (!finalists_.empty()) now = finalists_.front();
    descend(*now, all_looks_);
    return best_finalist();
  }

 private:
  static constexpr int kNoSeed = 5;
  // A change: of what all of a value's readers read in tiles, or one of them, or one of them together with what reads its result.
  enum class Kind : std::uint8_t { within_all, within_one, within_chain, with };
  struct Candidate {
    ValueId value;
    Kind kind = Kind::within_all;
    OpId reader = {};
  };
  // With these values in tiles.
  struct State {
    InTiles in_tiles;
    double cost = 0;  // seconds, or what lacks where it does not fit
    bool fits = false;
    std::vector<ValueId> full;  // where it does not: values that are there where it is fullest
  };

  void toggle(InTiles& in_tiles, const Candidate& candidate) const {
    const ValueId value = candidate.value;
    const std::vector<OpId>& readers = graph_.value(value).consumers;
    if (candidate.kind == Kind::with) {
      if (in_tiles.with.erase(value) > 0) return;
      in_tiles.with.insert(value);
      for (const OpId reader : readers) in_tiles.within.erase({value, reader});
      return;
    }
    in_tiles.with.erase(value);
    if (candidate.kind == Kind::within_chain) {
      const ValueId result = graph_.op(candidate.reader).outputs[0];
      const bool there = in_tiles.within.erase({value, candidate.reader}) > 0;
      if (!there) in_tiles.within.insert({value, candidate.reader});
      if (there == in_tiles.with.contains(result)) toggle(in_tiles, {.value = result, .kind = Kind::with});
      return;
    }
    if (candidate.kind == Kind::within_one) {
      if (in_tiles.within.erase({value, candidate.reader}) == 0) in_tiles.within.insert({value, candidate.reader});
      return;
    }
    std::size_t there = 0;
    for (const OpId reader : readers) there += in_tiles.within.erase({value, reader});
    if (there < readers.size())
      for (const OpId reader : readers) in_tiles.within.insert({value, reader});
  }

  // The best of these: values of some size and more that cheap ops of forward make; gradients of weights too; then gradients that
  // cheap ops read; then what cheap ops alone read in forward, and gradients that they make.
  State best_seed() {
    std::optional<State> best = state_of({});
    for (const Candidate& candidate : candidates_) most_ = std::max(most_, costs_.bytes[candidate.value]);
    constexpr int kSizes = 5;
    for (int size = 1; size <= kSizes; ++size)
      for (int kinds = 1; kinds < kNoSeed; ++kinds) {
        InTiles in_tiles;
        for (const Candidate& candidate : candidates_)
          if (costs_.bytes[candidate.value] >> (kSizes - size) >= most_ >> kSizes && kind_of(candidate) <= kinds)
            toggle(in_tiles, candidate);
        if (std::optional<State> made = state_of(in_tiles); made && (!best || made->cost < best->cost)) best = std::move(made);
      }
    return *std::move(best);
  }
  // In which of the seeds a candidate is: from this kind on.
  int kind_of(const Candidate& candidate) const {
    const Value& value = graph_.value(candidate.value);
    const auto is_cheap = [&](OpId id) { return graph_.op(id).def->cheap({graph_, graph_.op(id)}); };
    const bool made_cheaply = is_cheap(value.producer);
    const bool by_forward = graph_.op(value.producer).phase == Phase::forward;
    switch (candidate.kind) {
      case Kind::within_all:
        if (!by_forward) return kNoSeed;
        return made_cheaply ? 1 : std::ranges::all_of(value.consumers, is_cheap) ? 4 : kNoSeed;
      case Kind::within_one:
      case Kind::within_chain: return kNoSeed;
      case Kind::with:
        if (graph_.op(value.consumers[0]).phase == Phase::update) return 2;
        return std::ranges::any_of(value.consumers, is_cheap) ? 3 : made_cheaply ? 4 : kNoSeed;
    }
    return kNoSeed;
  }

  // While single ops do not fit: what gains most of the changes of one value that such an op touches, or of two.
  void make_ops_fit(State& now) {
    while (now.cost >= step_ * kOpsExcess && looks_ < all_looks_ - effort_ / (2 * kLaterPart)) {
      std::vector<const Candidate*> all;
      for (const Candidate& candidate : candidates_)
        if (candidate.kind != Kind::within_one && candidate.kind != Kind::within_chain &&
            std::ranges::find(now.full, candidate.value) != now.full.end())
          all.push_back(&candidate);
      std::optional<State> best;
      const auto consider = [&](InTiles changed) {
        std::optional<State> made = state_of(changed);
        looks_ += kLooksAState;
        if (made && made->cost < (best ? best->cost : now.cost)) best = std::move(made);
      };
      for (const Candidate* first : all) {
        InTiles changed = now.in_tiles;
        toggle(changed, *first);
        consider(std::move(changed));
      }
      for (std::size_t k = 0; !best && k < all.size(); ++k)
        for (std::size_t j = 0; j < k; ++j) {
          InTiles changed = now.in_tiles;
          toggle(changed, *all[k]);
          toggle(changed, *all[j]);
          consider(std::move(changed));
        }
      if (!best) return;
      now = *std::move(best);
    }
  }

  // Takes each change that gains anything, the largest values first, again and again until none does.
  void descend(State& now, std::int64_t end) {
    for (bool better = true; better && looks_ < end;) {
      better = false;
      for (const Candidate& candidate : candidates_) {
        if (looks_ >= end) return;
        InTiles changed = now.in_tiles;
        toggle(changed, candidate);
        looks_ += kLooksAState;
        const double allowed = now.cost * kGain;
        std::optional<State> made = state_of(changed, allowed);
        if (!made || made->cost > allowed) continue;
        now = *std::move(made);
        better = true;
      }
    }
  }

  void anneal_values(State& now, std::int64_t end) {
    if (candidates_.empty()) return;
    const std::int64_t begin = looks_;
    while (looks_ < end) {
      const double progress = static_cast<double>(looks_ - begin) / static_cast<double>(end - begin);
      const double temperature = step_ * kHottest * std::pow(kColdest / kHottest, progress);
      InTiles changed = now.in_tiles;
      const Candidate& first = any_candidate(now);
      toggle(changed, first);
      for (double chance = 0.4; chance_.part() < chance; chance *= 0.6)
        if (const Candidate* other = neighbour(first)) toggle(changed, *other);
      looks_ += kLooksAState;
      const double allowed = now.cost - temperature * std::log(1 - chance_.part());
      std::optional<State> made = state_of(changed, allowed);
      if (made && made->cost <= allowed) now = *std::move(made);
    }
  }

  const Candidate& any_candidate(const State& now) {
    if (!now.fits && !now.full.empty() && chance_.part() < 0.5) {
      const ValueId value = now.full[static_cast<std::size_t>(chance_.below(std::ssize(now.full)))];
      std::int64_t seen = 0;
      const Candidate* chosen = nullptr;
      for (const Candidate& candidate : candidates_)
        if (candidate.value == value && chance_.below(++seen) == 0) chosen = &candidate;
      if (chosen) return *chosen;
    }
    // The larger, the likelier.
    for (;;) {
      const Candidate& any = candidates_[static_cast<std::size_t>(chance_.below(std::ssize(candidates_)))];
      if (chance_.part() * chance_.part() * static_cast<double>(most_) < static_cast<double>(costs_.bytes[any.value])) return any;
    }
  }

  // A value that the maker or a reader of this one touches.
  const Candidate* neighbour(const Candidate& of) {
    const Value& value = graph_.value(of.value);
    std::int64_t seen = 0;
    const Candidate* chosen = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (candidate.value == of.value) continue;
      const Value& other = graph_.value(candidate.value);
      const auto reads = [](const Value& what, OpId op) { return std::ranges::find(what.consumers, op) != what.consumers.end(); };
      const bool near = reads(other, value.producer) || reads(value, other.producer) ||
                        std::ranges::any_of(value.consumers, [&](OpId op) { return reads(other, op); });
      if (near && chance_.below(++seen) == 0) chosen = &candidate;
    }
    return chosen;
  }

  // What that comes to, as far as it costs no more than so much; nothing where it cannot be.
  std::optional<State> state_of(const InTiles& in_tiles, double allowed = std::numeric_limits<double>::infinity()) {
    const auto [known, fresh] = known_.try_emplace(in_tiles);
    if (!fresh && (!known->second || known->second->second)) {
      if (!known->second) return std::nullopt;
      return known->second->first;
    }
    const std::int64_t reckoned = groups_.reckoned();
    std::optional<Table<RunUnit>> units = groups_.units(in_tiles);
    looks_ += graph_.op_count();
    looks_ += kLooksAUnit * (groups_.reckoned() - reckoned);
    if (!units) return std::nullopt;
    const RemakeProblem problem = remake_problem(request_, costs_, *std::move(units));
    State state{.in_tiles = in_tiles};
    const bool all = reckon(problem, allowed, state);
    known->second = {state, all};
    if (state.fits) remember(state);
    return state;
  }

  // Returns whether that is all there is to know, and not just that it costs more than it may.
  bool reckon(const RemakeProblem& problem, double allowed, State& state) {
    const auto part = [&](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(limit_); };
    const auto keep_full = [&](std::span<const std::int32_t> values) {
      for (const std::int32_t value : values)
        if (problem.values[value].bytes * kLeastPart >= limit_) state.full.push_back(problem.value_ids[value]);
    };
    std::int64_t excess = 0;
    for (const RemakeProblem::Op& op : problem.ops) {
      const std::int64_t above = own_bytes(problem, op) - limit_;
      if (above <= 0) continue;
      excess += above;
      keep_full(op.inputs);
      keep_full(op.outputs);
    }
    if (excess > 0) {
      state.cost = step_ * (kOpsExcess + kOpsExcess * part(excess));
      return true;
    }
    Evictor evictor(problem);
    const double unfit = step_ * kUnfit;
    if (allowed < unfit) {
      // Whether it may be fast enough is asked of some rules first.
      reckon_seconds(problem, evictor, {0, kLeadingRules}, state);
      if (!state.fits || state.cost > allowed * kHopeless) {
        state.cost = std::max(state.cost, allowed * kHopeless);
        return false;
      }
      reckon_seconds(problem, evictor, {kLeadingRules, rules_.size()}, state);
      return true;
    }
    std::vector<std::int32_t> order;
    for (std::int32_t k = 0; k < problem.ops.size(); ++k) order.push_back(k);
    std::int64_t low = limit_ - 1, high = RunSequence(problem, order).peak();
    const auto cost_of = [&](std::int64_t bytes) { return unfit * (1 + kExcess * part(bytes - limit_)); };
    if (cost_of(high) > allowed) {
      const auto most = limit_ + static_cast<std::int64_t>((allowed / unfit - 1) / kExcess * static_cast<double>(limit_));
      const std::optional<std::vector<std::int32_t>> found = evict_any(problem, evictor, most);
      if (!found) {
        state.cost = cost_of(high);
        return false;
      }
      order = *found;
      high = RunSequence(problem, order).peak();
    }
    while (high > limit_ && high - low > limit_ / kByteSteps) {
      const std::int64_t middle = std::max(limit_, low + (high - low) / 2);
      if (std::optional<std::vector<std::int32_t>> found = evict_any(problem, evictor, middle)) {
        order = *std::move(found);
        high = RunSequence(problem, order).peak();
      } else {
        low = middle;
      }
    }
    if (high < limit_ + limit_ / 100) reckon_seconds(problem, evictor, {0, rules_.size()}, state);
    if (state.fits) return true;
    state.cost = cost_of(std::max(high, limit_ + 1));
    const RunSequence runs(problem, order);
    const RunSequence::Id peak = runs.at_peak();
    for (std::int32_t v = 0; v < problem.values.size(); ++v)
      if (runs.touched_before(v, peak) != RunSequence::kNone && runs.read_behind(v, peak)) keep_full({&v, 1});
    keep_full(problem.ops[runs.op_of(peak)].inputs);
    keep_full(problem.ops[runs.op_of(peak)].outputs);
    return true;
  }

  // The seconds of the fastest sequence that some of the rules find; a rule that finds it comes further to the front.
  void reckon_seconds(const RemakeProblem& problem, Evictor& evictor, std::pair<std::size_t, std::size_t> which, State& state) {
    std::size_t best = rules_.size();
    for (std::size_t k = which.first; k < which.second; ++k) {
      const std::optional<std::vector<std::int32_t>> found = evict(problem, evictor, limit_, rules_[k]);
      if (!found) continue;
      const double seconds = RunSequence(problem, *found).seconds();
      if (state.fits && seconds >= state.cost) continue;
      state.fits = true;
      state.cost = seconds;
      best = k;
    }
    if (best > 0 && best < rules_.size()) std::swap(rules_[best], rules_[best / 2]);
  }

  std::optional<std::vector<std::int32_t>> evict_any(const RemakeProblem& problem, Evictor& evictor, std::int64_t limit) {
    for (std::size_t k = 0; k < rules_.size(); ++k)
      if (std::optional<std::vector<std::int32_t>> found = evict(problem, evictor, limit, rules_[k])) return found;
    return std::nullopt;
  }
  // Eviction does not know how long updates hold what they read: it is asked for less by what that comes to.
  std::optional<std::vector<std::int32_t>> evict(const RemakeProblem& problem, Evictor& evictor, std::int64_t limit,
                                                 const EvictionRule& rule) {
    constexpr int kAttempts = 3;
    std::int64_t asked = limit;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      Eviction made = evictor.run(asked, rule);
      looks_ += std::ssize(made.sequence);
      if (!made.fits) return std::nullopt;
      const std::int64_t peak = RunSequence(problem, made.sequence).peak();
      if (peak <= limit) return std::move(made.sequence);
      asked -= peak - limit;
    }
    return std::nullopt;
  }

  // The best states that fit, the fastest first.
  void remember(const State& state) {
    const auto at = std::ranges::upper_bound(finalists_, state.cost, {}, [](const State& other) { return other.cost; });
    finalists_.insert(at, state);
    if (finalists_.size() > kFinalists) finalists_.pop_back();
  }

  // The finalist whose sequence is the fastest when it is annealed.
  std::optional<RemakeProblem> best_finalist() {
    std::optional<RemakeProblem> best;
    double least = 0;
    for (const State& state : finalists_) {
      RemakeProblem problem = remake_problem(request_, costs_, *groups_.units(state.in_tiles));
      const FoundSequence found = SequenceSearch(problem).best(limit_, kMovesOfFinalist);
      if (!found.found() || (best && found.seconds >= least)) continue;
      least = found.seconds;
      best = std::move(problem);
    }
    return best;
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const OpCosts& costs_;
  TileGroups groups_;
  const std::int64_t effort_;
  std::int64_t limit_;
  std::vector<EvictionRule> rules_ = rules();
  std::vector<Candidate> candidates_;
  double step_ = 0;
  std::int64_t most_ = 0;                   // bytes of the largest candidate
  std::int64_t looks_ = 0, all_looks_ = 0;  // that were taken, and that may be
  Chance chance_{1};
  // What is known of a state, and whether that is all; nothing: it cannot be.
  std::map<InTiles, std::optional<std::pair<State, bool>>> known_;
  std::vector<State> finalists_;
};

std::int64_t largest_op(const RemakeProblem& problem) {
  std::int64_t most = 0;
  for (const RemakeProblem::Op& op : problem.ops) most = std::max(most, own_bytes(problem, op));
  return most;
}

GroupSearch::GroupSearch(const PlanRequest& request, const OpCosts& costs, const std::vector<OpId>& order, std::int64_t limit,
                         std::int64_t moves)
    : search_(std::make_unique<Search>(request, costs, order, limit, moves)) {}

GroupSearch::~GroupSearch() = default;

std::optional<RemakeProblem> GroupSearch::run(std::int64_t limit) { return search_->run(limit); }

}  // namespace outsize
