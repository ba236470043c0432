#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "graph/opdef.h"
#include "plan/analysis/groups.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/reckon/estimate.h"
#include "plan/swap/absences.h"
#include "plan/swap/recompute.h"
#include "plan/swap/residence.h"
#include "plan/tiling/large_values.h"
#include "plan/tiling/micro_ops.h"
#include "plan/tiling/weights.h"

namespace outsize {

namespace {

constexpr PlannerOption kStreamSplit{
    .name = "split",
    .kind = PlannerOption::Kind::word,
    .initial = "true",
    .help = "a large value, as logits, may be taken piece by piece; false: results are keep's to the bit",
    .words = "true|false"};

// How much of forward is made again.
struct Remaking {
  static constexpr std::int64_t kParts = 64;

  bool cheap = false;     // results of bandwidth-bound ops whose inputs outlive forward
  std::int64_t span = 1;  // groups that are a segment
  std::int64_t full = 0;  // parts of the segments, spread evenly, of which only what leads out outlives forward

  bool operator==(const Remaking&) const = default;
};

// What is decided; what leaves the device, and when, follows from it.
struct Setting {
  Remaking remaking;
  Residence residence;

  bool operator==(const Setting&) const = default;
};

// Tries settings and keeps the best plan: the fastest by estimate.
class Stream {
 public:
  explicit Stream(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        costs_(costs_of(request)),
        groups_(groups_of(graph_)),
        order_(eager_order(graph_)),
        residents_(request),
        limit_(request.limited() ? std::max<std::int64_t>(1, limit_of(request) - request.gaps) : kNoLimit) {}

  Planned<Plan> plan() {
    if (!request_.limited()) {
      consider({});
    } else {
      begin();
      improve();
      if (request_.options.flag(kStreamSplit)) {
        take_apart();
        if (!best_ && request_.has_lower_tier()) stream_weights();
      }
    }
    if (best_) return *std::move(best_);
    return *std::move(refusal_);
  }

 private:
  static constexpr std::int64_t kParts = Residence::kParts;
  static_assert(kParts == Remaking::kParts);

  // All combinations of a few; then longer segments.
  void begin() {
    const std::vector<Remaking> remakings{{}, {true}, {true, 1, kParts / 2}, {true, 1, kParts * 3 / 4}, {true, 1, kParts}};
    for (const std::int64_t whole : {kParts, kParts / 2, kParts / 4, std::int64_t{0}})
      for (const std::int64_t state_away : {kParts, kParts / 2, std::int64_t{0}})
        if (whole < kParts || state_away == 0)  // where all is whole nothing is left to be away
          for (const Remaking& remaking : remakings) consider({remaking, {whole, state_away, 0}});
    for (const Remaking& remaking : remakings) consider({remaking, {0, 0, kParts}});
    try_segments();
  }

  void try_segments() {
    const Residence residence = best_setting_.residence;
    for (std::int64_t span = 2; span < std::ssize(groups_); span *= 2)
      for (const std::int64_t full : {kParts / 2, kParts}) consider({{true, span, full}, residence});
  }

  // Steps from the best along one number, or two at once, shorter and shorter ones; of each length again while that helps.
  void improve() {
    constexpr int kAgain = 2;
    using Numbers = std::array<int, 4>;  // full, whole, state_away, all_away
    constexpr std::array<Numbers, 7> kWays{
        {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 1, -1, 0}, {1, 0, 1, 0}}};
    for (std::int64_t step = kParts / 4; step > 0; step /= 2) {
      Setting before;
      for (int again = 0; again < kAgain && (again == 0 || before != best_setting_); ++again) {
        before = best_setting_;
        for (const Numbers& way : kWays)
          for (const std::int64_t by : {-step, step}) {
            Setting next = best_setting_;
            const auto move = [&](std::int64_t& number, int times) {
              number = std::clamp<std::int64_t>(number + times * by, 0, kParts);
            };
            move(next.remaking.full, way[0]);
            move(next.residence.whole, way[1]);
            move(next.residence.state_away, way[2]);
            move(next.residence.all_away, way[3]);
            consider(next);
          }
      }
    }
  }

  // Tries the same with a large value in pieces, which changes the order in which numbers are summed: it must be worth it.
  void take_apart() {
    constexpr std::int64_t kLarge = 16;   // a value is large that takes so many parts of the memory or more,
    constexpr std::int64_t kPieces = 64;  // and its pieces take so many
    constexpr double kWorth = 0.97;
    constexpr double kBusy = 1.02;  // of what its ops take: no more could be gained
    if (best_ && least_excess_ == 0 && least_seconds_ < kBusy * std::accumulate(costs_.seconds.begin(), costs_.seconds.end(), 0.0))
      return;
    large_ = find_large_value(request_, order_, limit_ / kLarge);
    if (!large_) return;
    runs_.clear();
    tried_.clear();
    const std::int64_t wanted = packed_bytes(request_, large_->value) / std::max<std::int64_t>(1, limit_ / kPieces) + 1;
    std::size_t k = 0;
    while (k + 1 < large_->dims.size() && large_->counts[k] < wanted) ++k;
    const auto leaves = [&](ValueId value) {
      return graph_.is_output(value) || std::ranges::any_of(graph_.value(value).consumers, [&](OpId reader) {
               return std::ranges::find(large_->ops, reader) == large_->ops.end();
             });
    };
    large_run_ =
        MicroOps(request_).run(large_->ops, {large_->dims[k], std::clamp<std::int64_t>(wanted, 2, large_->counts[k])}, leaves);
    large_run_.pass.name = "pieces." + graph_.value(large_->value).name;
    least_seconds_ *= kWorth;
    for (const std::int64_t full : {kParts / 2, kParts})
      for (const std::int64_t state_away : {kParts / 2, std::int64_t{0}}) consider({{true, 1, full}, {0, state_away, 0}});
    try_segments();
    improve();
  }

  // Tries the same with large weights on the device in rows or columns only.
  void stream_weights() {
    constexpr std::int64_t kLarge = 8;  // a weight is large that takes so many parts of the memory or more
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId(v));
      const bool large = value.role == Role::parameter && !value.producer && packed_bytes(request_, ValueId(v)) >= limit_ / kLarge;
      if (!large || value.type.shape.rank() < 2) continue;
      // The ops around a large value are one already.
      const auto is_one = [&](OpId op) { return large_ && std::ranges::find(large_->ops, op) != large_->ops.end(); };
      std::optional<WeightUses> uses = weight_uses(graph_, ValueId(v));
      if (uses && std::ranges::none_of(value.consumers, is_one)) streamed_.emplace_back(ValueId(v), *std::move(uses));
    }
    if (streamed_.empty()) return;
    tried_.clear();
    begin();
    improve();
  }

  // No fewer seconds than the device, the host and, for persistent values alone, the links have to do.
  double work_seconds(const SpillChoice& choice) const {
    double compute = 0;
    for (const OpId run : choice.runs)
      if (choice.on_host.empty() || !choice.on_host[run]) compute += costs_.seconds[run];
    return std::max(compute, residents_.least_seconds(choice));
  }
  // No fewer seconds than the links have to do.
  double link_seconds(const Absences& absences) const {
    const Device& device = request_.profile.device;
    const double out = static_cast<double>(absences.out_bytes) / device.link_out;
    const double in = static_cast<double>(absences.in_bytes) / device.link_in;
    return device.full_duplex ? std::max(out, in) : out + in;
  }

  // No runs where the ops around the large value cannot be one.
  const Runs& runs_with(const Remaking& remaking) {
    const auto [known, fresh] = runs_.try_emplace({remaking.cheap, remaking.span, remaking.full});
    if (!fresh) return known->second;
    known->second = with_recomputation(graph_, dropped_by(remaking), Again::held, {}, large_ ? large_->order : order_);
    if (large_) known->second = joined_runs(graph_, known->second, *large_).value_or(Runs());
    return known->second;
  }

  void consider(const Setting& setting) {
    if (std::ranges::find(tried_, setting) != tried_.end()) return;
    tried_.push_back(setting);
    SpillChoice choice;
    choice.runs = runs_with(setting.remaking);
    if (large_ && choice.runs.empty()) return;
    join_gradients(choice.runs);
    residents_.settle(setting.residence, costs_, choice);
    place_streamed(choice);
    if (least_excess_ == 0 && work_seconds(choice) >= least_seconds_) return;
    split_updates(choice);
    if (large_) split_large(choice);
    for (const auto& [weight, uses] : streamed_) split_weight(weight, uses, choice);
    const Lives lives = lives_of(request_, costs_, choice.runs, choice.on_host, choice.splits);
    const Absences absences = choose_absences(request_, lives, choice, limit_);
    const std::int64_t excess = std::max<std::int64_t>(0, absences.needed - limit_);
    if (excess > least_excess_ || (excess > 0 && excess == least_excess_)) return;
    if (excess == least_excess_ && link_seconds(absences) >= least_seconds_) return;
    if (excess > 0 && absences.needed > limit_of(request_)) {
      refusal_ = refusal_of(request_, "stream", absences.needed, choice.runs[absences.at]);
      least_excess_ = excess;
      best_setting_ = setting;
      return;
    }
    Planned<Plan> plan = spill_plan(request_, "stream", lives, choice);
    if (!plan) {
      if (!refusal_) refusal_ = plan.refusal();
      return;
    }
    const double seconds = estimated_seconds(request_, lives, *plan, choice.splits);
    if (excess == least_excess_ && seconds >= least_seconds_) return;
    least_excess_ = excess;
    least_seconds_ = seconds;
    best_setting_ = setting;
    best_ = *std::move(plan);
  }

  // Updates by the device that take much of the memory go row by row, with what lives in a lower tier.
  void split_updates(SpillChoice& choice) {
    constexpr std::int64_t kMost = 2;     // an update takes so many parts of the memory at most,
    constexpr std::int64_t kPieces = 64;  // and its rows so many
    choice.splits.of_run.assign(choice.runs.size(), Splits::kWhole);
    for (std::int64_t p = 0; p < choice.runs.size(); ++p) {
      const OpId id = choice.runs[p];
      const Op& op = graph_.op(id);
      if (op.phase != Phase::update || (!choice.on_host.empty() && choice.on_host[id])) continue;
      if (choice.splits.streams(op.inputs[0])) continue;
      std::int64_t bytes = 0;
      bool comes = false;
      for (ValueId input : op.inputs) bytes += packed_bytes(request_, input), comes = comes || choice.away[input];
      const std::int64_t rows = graph_.value(op.outputs[0]).type.shape[0];
      if (!comes || bytes <= limit_ / kMost || rows < 2 || !op.def->can_gather({graph_, op})) continue;
      const std::int64_t pieces = std::min(rows, bytes / std::max<std::int64_t>(1, limit_ / kPieces) + 1);
      choice.splits.of_run[p] = static_cast<std::int32_t>(choice.splits.all.size());
      choice.splits.all.push_back(split_update(id, pieces, choice.away));
    }
  }

  const SplitRun& split_update(OpId id, std::int64_t pieces, const IdVector<ValueId, bool>& away) {
    std::vector<bool> comes;
    for (ValueId input : graph_.op(id).inputs) comes.push_back(away[input]);
    const auto [known, fresh] = split_updates_.try_emplace({id, std::move(comes)});
    if (fresh) {
      MicroOps micro(request_);
      for (ValueId input : graph_.op(id).inputs)
        if (away[input]) micro.stream(input);
      known->second = micro.run({id}, {0, pieces}, [](ValueId) { return true; }, {.ahead = true});
      known->second.pass.name = "rows." + graph_.op(id).name;
    }
    return known->second;
  }

  // The gradients of streamed weights are made with the updates, row by row.
  void join_gradients(Runs& runs) const {
    Runs joined;
    for (const OpId run : runs)
      if (std::ranges::none_of(streamed_, [&](const auto& of) { return of.second.update && of.second.gradient == run; }))
        joined.push_back(run);
    runs = std::move(joined);
  }
  void place_streamed(SpillChoice& choice) const {
    if (!streamed_.empty()) choice.splits.streamed.assign(graph_.value_count(), false);
    for (const auto& [weight, uses] : streamed_) {
      if (uses.update && !choice.on_host.empty()) choice.on_host[uses.update] = false;
      choice.away[weight] = false;
      choice.splits.streamed[weight] = true;
      for (ValueId state : uses.states) choice.away[state] = false, choice.splits.streamed[state] = true;
    }
  }

  void split_weight(ValueId weight, const WeightUses& uses, SpillChoice& choice) {
    constexpr std::int64_t kPieces = 64;  // the rows of a weight take so many parts of the memory
    const std::int64_t wanted = packed_bytes(request_, weight) / std::max<std::int64_t>(1, limit_ / kPieces) + 1;
    for (std::int64_t p = 0; p < choice.runs.size(); ++p) {
      const OpId id = choice.runs[p];
      const bool updates = uses.update == id;
      if (!updates && std::ranges::find(uses.readers, id) == uses.readers.end()) continue;
      std::optional<SplitRun>& run = weight_runs_[id];
      if (!run) {
        MicroOps micro(request_);
        micro.stream(weight);
        for (ValueId state : uses.states) micro.stream(state);
        const int dim = updates ? 0 : dim_that_cuts_weight(graph_, id, weight);
        const std::int64_t extent = graph_.value(graph_.op(id).outputs[0]).type.shape[dim];
        const std::vector<OpId> ops = updates ? std::vector<OpId>{uses.gradient, id} : std::vector<OpId>{id};
        run = micro.run(ops, {dim, std::min(wanted, extent)}, [&](ValueId value) { return graph_.value(value).producer == id; },
                        {.ahead = true, .driver = graph_.op(id).outputs[0]});
      }
      choice.splits.of_run[p] = static_cast<std::int32_t>(choice.splits.all.size());
      choice.splits.all.push_back(*run);
      choice.splits.all.back().pass.name = fmt::format("weights.{}", p);
    }
  }

  void split_large(SpillChoice& choice) const {
    const std::int64_t run = std::ranges::find(choice.runs, large_->ops.back()) - choice.runs.begin();
    choice.splits.of_run[run] = static_cast<std::int32_t>(choice.splits.all.size());
    choice.splits.all.push_back(large_run_);
  }

  bool made_by_forward(ValueId id) const {
    const OpId producer = graph_.value(id).producer;
    return producer && graph_.op(producer).phase == Phase::forward && !graph_.is_output(id) &&
           graph_.value(id).role != Role::statistic;
  }

  IdVector<ValueId, bool> dropped_by(const Remaking& remaking) const {
    IdVector<ValueId, bool> dropped(graph_.value_count(), false);
    const std::int64_t segments = std::ssize(groups_) / remaking.span;
    const std::int64_t full = segments * remaking.full / Remaking::kParts;
    for (std::int64_t s = 0; s < segments; ++s) {
      if ((s + 1) * full / segments == s * full / segments) continue;
      // The last group is not made again: backward begins with it.
      const std::int64_t first = s * remaking.span, end = std::min(first + remaking.span, std::ssize(groups_) - 1);
      for (std::int64_t g = first; g < end; ++g)
        for (OpId id : groups_[g].forward)
          for (ValueId output : graph_.op(id).outputs)
            if (made_by_forward(output) && (g + 1 < end || output != groups_[g].output)) dropped[output] = true;
    }
    if (remaking.cheap) drop_cheap(dropped);
    if (large_)
      for (OpId id : large_->ops)
        for (ValueId input : graph_.op(id).inputs) dropped[input] = false;
    return dropped;
  }

  void drop_cheap(IdVector<ValueId, bool>& dropped) const {
    IdVector<ValueId, bool> saved(graph_.value_count(), false);
    for (const Group& group : groups_)
      for (ValueId value : group.saved) saved[value] = true;
    for (const Op& op : graph_.ops()) {
      if (op.phase != Phase::forward || !op.def->cheap({graph_, op})) continue;
      const bool there = std::ranges::all_of(op.inputs, [&](ValueId input) {
        return !graph_.value(input).producer || graph_.value(input).role == Role::statistic || saved[input] || dropped[input];
      });
      for (ValueId output : op.outputs)
        if (there && made_by_forward(output) && saved[output]) dropped[output] = true;
    }
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const OpCosts costs_;
  const std::vector<Group> groups_;
  const std::vector<OpId> order_;
  const Residents residents_;
  const std::int64_t limit_;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, Runs> runs_;     // by what is made again
  std::map<std::pair<OpId, std::vector<bool>>, SplitRun> split_updates_;  // by the update and which of its inputs are away
  std::optional<LargeValue> large_;                                       // where it is to be taken apart
  SplitRun large_run_;                                                    // the run that does
  std::vector<std::pair<ValueId, WeightUses>> streamed_;                  // weights that are never whole on the device
  std::map<OpId, std::optional<SplitRun>> weight_runs_;                   // of the ops that touch them
  std::vector<Setting> tried_;
  Setting best_setting_;
  std::int64_t least_excess_ = std::numeric_limits<std::int64_t>::max();
  double least_seconds_ = std::numeric_limits<double>::infinity();
  std::optional<Plan> best_;
  std::optional<Refusal> refusal_;
};

}  // namespace

Planned<Plan> plan_stream(const PlanRequest& request) { return Stream(request).plan(); }

std::vector<PlannerOption> stream_options() { return {kStreamSplit}; }

}  // namespace outsize
