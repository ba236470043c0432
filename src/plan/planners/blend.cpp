#include <algorithm>
#include <any>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/analysis/order.h"
#include "plan/joint/step_layout.h"
#include "plan/planners/planners.h"
#include "plan/remaking/sequence_search.h"

namespace outsize {

namespace {

constexpr PlannerOption kBlendMoves{
    .name = "moves", .initial = "400000", .help = "changes of sequences that are tried, at most, in search of a faster plan"};

constexpr PlannerOption kBlendSplit{
    .name = "split",
    .kind = PlannerOption::Kind::word,
    .initial = "true",
    .help = "a large value, as logits, may be taken piece by piece; false: results are keep's to the bit",
    .words = "true|false"};

// Small graphs are searched through with fewer moves: so many an op.
constexpr std::int64_t kMovesAnOp = 800;

// How far above the memory the limit of a sequence is; and where persistent values live.
struct Setting {
  std::int64_t level = 0;
  bool longer = false;  // the sequence that was searched for longer
  Residence residence;

  bool operator==(const Setting&) const = default;
};

// What is known of a graph whatever the memory is: sequences within some limits, found when they are first asked for.
class LeveledSequences {
 public:
  // Limits between the least at which there is a sequence, and holding everything.
  static constexpr std::int64_t kLevels = 64;

  LeveledSequences(const PlanRequest& request, const OpCosts& costs, std::int64_t moves)
      : problem_(
            remake_problem(request, costs, whole_units(request.graph, eager_order(request.graph, narrow_order(request.graph))))),
        search_(problem_),
        moves_(std::min(moves, problem_.ops.size() * kMovesAnOp)) {
    std::vector<std::int32_t> all;
    for (std::int32_t k = 0; k < problem_.ops.size(); ++k) all.push_back(k);
    most_ = RunSequence(problem_, all).peak();
    least_ = std::min(most_, search_.least().bytes);
  }

  const RemakeProblem& problem() const { return problem_; }
  // Some of which were found quickly, the fastest first; or one that was searched for longer, if there is one.
  const std::vector<FoundSequence>& at(std::int64_t level, bool longer) {
    const auto [known, fresh] = known_.try_emplace({level, longer});
    if (!fresh) return known->second;
    const std::int64_t bytes = least_ + (most_ - least_) / kLevels * level;
    if (!longer) {
      constexpr std::size_t kMost = 3;
      known->second = search_.quick_seeds(bytes);
      if (known->second.size() > kMost) known->second.resize(kMost);
      return known->second;
    }
    const std::vector<FoundSequence> quick = at(level, false);
    if (quick.empty()) return known->second;
    FoundSequence found =
        anneal(problem_, quick.front().sequence, bytes, {.moves = moves_ / kLonger, .seed = static_cast<std::uint64_t>(level) + 1});
    if (found.found()) known->second.push_back(std::move(found));
    return known->second;
  }
  bool knows(std::int64_t level) const { return known_.contains({level, true}); }

  std::vector<Setting> best;     // of the request before, the best last
  std::int64_t best_limit = -1;  // of that request

 private:
  static constexpr std::int64_t kLonger = 6;  // levels for which sequences are searched for longer, about

  const RemakeProblem problem_;
  SequenceSearch search_;
  const std::int64_t moves_;
  std::int64_t least_ = 0, most_ = 0;
  std::map<std::pair<std::int64_t, bool>, std::vector<FoundSequence>> known_;
};

class Blend {
 public:
  explicit Blend(const PlanRequest& request) : request_(request), layout_(request, "blend") {}

  Planned<Plan> plan() {
    layout_.consider(eager_order(request_.graph), {});
    if (!request_.limited() || (layout_.found() && layout_.seconds() <= ops_seconds())) return layout_.take();
    using Kept = std::shared_ptr<LeveledSequences>;
    if (request_.kept) {
      if (!request_.kept->has_value())
        *request_.kept = std::make_shared<LeveledSequences>(request_, layout_.costs(), request_.options.integer(kBlendMoves));
      sequences_ = std::any_cast<Kept>(*request_.kept);
    } else {
      sequences_ = std::make_shared<LeveledSequences>(request_, layout_.costs(), request_.options.integer(kBlendMoves));
    }
    // Asked for the same with other times, or again for less: what is known will do.
    again_ = sequences_->best_limit >= 0;
    search();
    if (request_.options.flag(kBlendSplit) && layout_.take_apart()) {
      tried_.clear();
      search();
    }
    if (!layout_.found() && request_.has_lower_tier() && layout_.stream_weights()) {
      tried_.clear();
      search();
    }
    sequences_->best_limit = layout_.limit();
    return layout_.take();
  }

 private:
  static constexpr std::int64_t kParts = Residence::kParts, kLevels = LeveledSequences::kLevels;

  double ops_seconds() const {
    const IdVector<OpId, double>& seconds = layout_.costs().seconds;
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }

  void consider(const Setting& setting) {
    if (std::ranges::find(tried_, setting) != tried_.end()) return;
    tried_.push_back(setting);
    for (const FoundSequence& found : sequences_->at(setting.level, setting.longer))
      if (layout_.consider(runs_of(sequences_->problem(), found.sequence).runs, setting.residence)) {
        best_ = setting;
        std::erase(sequences_->best, setting);
        sequences_->best.push_back(setting);
      }
  }

  void search() {
    if (again_) {
      const std::vector<Setting> known = sequences_->best;
      for (const Setting& setting : known) consider(setting);
      if (sequences_->best_limit == layout_.limit()) return;
    }
    constexpr std::int64_t kFirst = 8;  // levels apart
    for (std::int64_t level = 0; level <= kLevels; level += kFirst) consider({level, false, best_.residence});
    if (request_.has_lower_tier() && sequences_->problem().persistent > layout_.limit() / kFirst) {
      for (const std::int64_t whole : {kParts / 2, kParts / 4, std::int64_t{0}})
        for (const std::int64_t state_away : {kParts, kParts / 2, std::int64_t{0}})
          for (std::int64_t level = 0; level <= kLevels; level += 2 * kFirst) consider({level, false, {whole, state_away, 0}});
      for (std::int64_t level = 0; level <= kLevels; level += 2 * kFirst) consider({level, false, {0, 0, kParts}});
    }
    improve(kFirst / 2);
    const std::int64_t middle = best_.level;
    for (const std::int64_t by : {0, -4, 4, -2, 2}) {
      const std::int64_t level = std::clamp<std::int64_t>(middle + by, 0, kLevels);
      if (!again_ || sequences_->knows(level)) consider({level, true, best_.residence});
    }
    improve(1);
  }

  // Steps from the best along one number, or two at once, shorter and shorter ones.
  void improve(std::int64_t step) {
    using Numbers = std::array<int, 4>;  // level, whole, state_away, all_away
    constexpr std::array<Numbers, 7> kWays{
        {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 1, -1, 0}, {1, 0, 1, 0}}};
    for (; step > 0; step /= 2)
      for (const Numbers& way : kWays)
        for (const std::int64_t by : {-step, step}) {
          Setting next = best_;
          const auto move = [&](std::int64_t& number, int times) {
            number = std::clamp<std::int64_t>(number + times * by * 4, 0, kParts);
          };
          next.level = std::clamp<std::int64_t>(next.level + way[0] * by, 0, kLevels);
          move(next.residence.whole, way[1]);
          move(next.residence.state_away, way[2]);
          move(next.residence.all_away, way[3]);
          if (!next.longer || next.level == best_.level) consider(next);
        }
  }

  const PlanRequest& request_;
  StepLayout layout_;
  std::shared_ptr<LeveledSequences> sequences_;
  bool again_ = false;
  std::vector<Setting> tried_;
  Setting best_;
};

}  // namespace

Planned<Plan> plan_blend(const PlanRequest& request) { return Blend(request).plan(); }

std::vector<PlannerOption> blend_options() { return {kBlendMoves, kBlendSplit}; }

}  // namespace outsize
