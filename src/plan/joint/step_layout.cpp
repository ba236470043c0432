#include "plan/joint/step_layout.h"

#include <algorithm>
#include <numeric>

#include "graph/opdef.h"
#include "plan/analysis/order.h"
#include "plan/reckon/estimate.h"
#include "plan/tiling/micro_ops.h"

namespace outsize {

StepLayout::StepLayout(const PlanRequest& request, std::string_view planner)
    : request_(request),
      graph_(request.graph),
      planner_(planner),
      costs_(costs_of(request)),
      order_(eager_order(graph_)),
      residents_(request),
      limit_(request.limited() ? std::max<std::int64_t>(1, limit_of(request) - request.gaps) : kNoLimit) {}

Planned<Plan> StepLayout::take() {
  if (best_) return *std::move(best_);
  return *std::move(refusal_);
}

bool StepLayout::take_apart() {
  constexpr std::int64_t kLarge = 16;   // a value is large that takes so many parts of the memory or more,
  constexpr std::int64_t kPieces = 64;  // and its pieces take so many
  constexpr double kWorth = 0.97;
  constexpr double kBusy = 1.02;  // of what its ops take: no more could be gained
  if (best_ && least_excess_ == 0 && least_seconds_ < kBusy * std::accumulate(costs_.seconds.begin(), costs_.seconds.end(), 0.0))
    return false;
  large_ = find_large_value(request_, order_, limit_ / kLarge);
  if (!large_) return false;
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
  return true;
}

bool StepLayout::stream_weights() {
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
  return !streamed_.empty();
}

bool StepLayout::consider(Runs runs, const Residence& residence) {
  SpillChoice choice;
  choice.runs = std::move(runs);
  if (large_) {
    std::optional<Runs> joined = joined_runs(graph_, choice.runs, *large_);
    if (!joined) return false;
    choice.runs = *std::move(joined);
  }
  residents_.settle(residence, costs_, choice);
  place_streamed(choice);
  join_gradients(choice.runs);
  if (least_excess_ == 0 && work_seconds(choice) >= least_seconds_) return false;
  split_updates(choice);
  if (large_) split_large(choice);
  for (const auto& [weight, uses] : streamed_) split_weight(weight, uses, choice);
  const Lives lives = lives_of(request_, costs_, choice.runs, choice.on_host, choice.splits);
  const Absences absences = choose_absences(request_, lives, choice, limit_);
  const std::int64_t excess = std::max<std::int64_t>(0, absences.needed - limit_);
  if (excess > least_excess_ || (excess > 0 && excess == least_excess_)) return false;
  if (excess == least_excess_ && link_seconds(absences) >= least_seconds_) return false;
  if (excess > 0 && absences.needed > limit_of(request_)) {
    refusal_ = refusal_of(request_, planner_, absences.needed, choice.runs[absences.at]);
    least_excess_ = excess;
    return true;
  }
  Planned<Plan> plan = spill_plan(request_, planner_, lives, choice);
  if (!plan) {
    if (!refusal_) refusal_ = plan.refusal();
    return false;
  }
  const double seconds = estimated_seconds(request_, lives, *plan, choice.splits);
  if (excess == least_excess_ && seconds >= least_seconds_) return false;
  least_excess_ = excess;
  least_seconds_ = seconds;
  best_ = *std::move(plan);
  return true;
}

// No fewer seconds than the device, the host and, for persistent values alone, the links have to do.
double StepLayout::work_seconds(const SpillChoice& choice) const {
  double compute = 0;
  for (const OpId run : choice.runs)
    if (choice.on_host.empty() || !choice.on_host[run]) compute += costs_.seconds[run];
  return std::max(compute, residents_.least_seconds(choice));
}
// No fewer seconds than the links have to do.
double StepLayout::link_seconds(const Absences& absences) const {
  const Device& device = request_.profile.device;
  const double out = static_cast<double>(absences.out_bytes) / device.link_out;
  const double in = static_cast<double>(absences.in_bytes) / device.link_in;
  return device.full_duplex ? std::max(out, in) : out + in;
}

// Updates by the device that take much of the memory go row by row, with what lives in a lower tier.
void StepLayout::split_updates(SpillChoice& choice) {
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

const SplitRun& StepLayout::split_update(OpId id, std::int64_t pieces, const IdVector<ValueId, bool>& away) {
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

// The gradients of streamed weights are made with the updates, row by row; what reads another result of the same op, as a bias's
// gradient, then waits for the update too.
void StepLayout::join_gradients(Runs& runs) const {
  if (streamed_.empty()) return;
  IdVector<OpId, bool> joins(graph_.op_count(), false);
  IdVector<ValueId, bool> lacks(graph_.value_count(), false);  // is made later than it was
  for (const auto& [weight, uses] : streamed_)
    if (uses.update) joins[uses.gradient] = true;
  Runs joined;
  std::vector<OpId> waiting;
  const auto is_ready = [&](OpId run) {
    return std::ranges::none_of(graph_.op(run).inputs, [&](ValueId input) { return lacks[input]; });
  };
  const auto mark = [&](OpId run, bool lacking) {
    for (ValueId output : graph_.op(run).outputs) lacks[output] = lacking;
  };
  for (const OpId run : runs) {
    const auto updated =
        std::ranges::find_if(streamed_, [&](const auto& of) { return of.second.update && of.second.update == run; });
    if (updated != streamed_.end()) mark(updated->second.gradient, false);
    if (joins[run] || !is_ready(run)) {
      mark(run, true);
      if (!joins[run]) waiting.push_back(run);
      continue;
    }
    joined.push_back(run);
    if (updated == streamed_.end()) continue;
    std::erase_if(waiting, [&](OpId other) {
      if (!is_ready(other)) return false;
      mark(other, false);
      joined.push_back(other);
      return true;
    });
  }
  runs = std::move(joined);
}

void StepLayout::place_streamed(SpillChoice& choice) const {
  if (!streamed_.empty()) choice.splits.streamed.assign(graph_.value_count(), false);
  for (const auto& [weight, uses] : streamed_) {
    if (uses.update && !choice.on_host.empty()) choice.on_host[uses.update] = false;
    choice.away[weight] = false;
    choice.splits.streamed[weight] = true;
    for (ValueId state : uses.states) choice.away[state] = false, choice.splits.streamed[state] = true;
  }
}

// About so many pieces of an extent, or more, each but the last a multiple of the blocks in which maps hold channels where the ops
// touch maps; one where there are none such.
std::int64_t StepLayout::pieces_of(const std::vector<OpId>& ops, std::int64_t extent, std::int64_t wanted) const {
  const auto is_map = [&](ValueId value) { return outsize::is_map(graph_.value(value).type.format); };
  const bool maps = std::ranges::any_of(ops, [&](OpId op) {
    return std::ranges::any_of(graph_.op(op).inputs, is_map) || std::ranges::any_of(graph_.op(op).outputs, is_map);
  });
  const std::int64_t unit = maps ? request_.storage.channel_block : 1;
  for (std::int64_t count = std::clamp<std::int64_t>(wanted, 1, extent); count * unit <= extent + unit - 1; ++count)
    if ((extent + count - 1) / count % unit == 0) return count;
  return 1;
}

void StepLayout::split_weight(ValueId weight, const WeightUses& uses, SpillChoice& choice) {
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
      const auto leaves = [&](ValueId value) {
        return graph_.value(value).producer == id || graph_.is_output(value) ||
               std::ranges::any_of(graph_.value(value).consumers,
                                   [&](OpId reader) { return std::ranges::find(ops, reader) == ops.end(); });
      };
      run = micro.run(ops, {dim, pieces_of(ops, extent, wanted)}, leaves, {.ahead = true, .driver = graph_.op(id).outputs[0]});
    }
    choice.splits.of_run[p] = static_cast<std::int32_t>(choice.splits.all.size());
    choice.splits.all.push_back(*run);
    choice.splits.all.back().pass.name = fmt::format("weights.{}", p);
  }
}

void StepLayout::split_large(SpillChoice& choice) const {
  const std::int64_t run = std::ranges::find(choice.runs, large_->ops.back()) - choice.runs.begin();
  choice.splits.of_run[run] = static_cast<std::int32_t>(choice.splits.all.size());
  choice.splits.all.push_back(large_run_);
}

}  // namespace outsize
