#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "graph/opdef.h"
#include "plan/analysis/groups.h"
#include "plan/joint/step_layout.h"
#include "plan/planners/planners.h"
#include "plan/swap/recompute.h"

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
      : request_(request), graph_(request.graph), groups_(groups_of(graph_)), layout_(request, "stream") {}

  Planned<Plan> plan() {
    if (!request_.limited()) {
      consider({});
    } else {
      begin();
      improve();
      if (request_.options.flag(kStreamSplit)) {
        take_apart();
        if (!layout_.found() && request_.has_lower_tier()) stream_weights();
      }
    }
    return layout_.take();
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

  // Tries the same with a large value in pieces.
  void take_apart() {
    if (!layout_.take_apart()) return;
    runs_.clear();
    tried_.clear();
    for (const std::int64_t full : {kParts / 2, kParts})
      for (const std::int64_t state_away : {kParts / 2, std::int64_t{0}}) consider({{true, 1, full}, {0, state_away, 0}});
    try_segments();
    improve();
  }

  // Tries the same with large weights on the device in rows or columns only.
  void stream_weights() {
    if (!layout_.stream_weights()) return;
    tried_.clear();
    begin();
    improve();
  }

  const Runs& runs_with(const Remaking& remaking) {
    const auto [known, fresh] = runs_.try_emplace({remaking.cheap, remaking.span, remaking.full});
    if (fresh) known->second = with_recomputation(graph_, dropped_by(remaking), Again::held, {}, layout_.order());
    return known->second;
  }

  void consider(const Setting& setting) {
    if (std::ranges::find(tried_, setting) != tried_.end()) return;
    tried_.push_back(setting);
    if (layout_.consider(runs_with(setting.remaking), setting.residence)) best_setting_ = setting;
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
    if (const LargeValue* large = layout_.large())
      for (OpId id : large->ops)
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
  const std::vector<Group> groups_;
  StepLayout layout_;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, Runs> runs_;  // by what is made again
  std::vector<Setting> tried_;
  Setting best_setting_;
};

}  // namespace

Planned<Plan> plan_stream(const PlanRequest& request) { return Stream(request).plan(); }

std::vector<PlannerOption> stream_options() { return {kStreamSplit}; }

}  // namespace outsize
