#include "plan/reckon/lives.h"

#include <algorithm>

#include "base/bytes.h"
#include "graph/in_place.h"
#include "graph/storage.h"

namespace outsize {

namespace {

class Follower {
 public:
  Follower(const PlanRequest& request, const OpCosts& costs, const Runs& runs, const IdVector<OpId, bool>& on_host,
           const Splits& splits)
      : graph_(request.graph),
        request_(request),
        costs_(costs),
        runs_(runs),
        on_host_(on_host),
        splits_(splits),
        newest_(graph_.value_count(), kNone) {}

  Lives run() {
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId(v));
      if (value.producer) continue;
      if (value.persistent())
        lives_.persistent += splits_.streams(ValueId(v)) ? 0 : packed_bytes(request_, ValueId(v));
      else if (!only_read_by(graph_, ValueId(v), on_host_) && !splits_.streams(ValueId(v)))
        begin_life(ValueId(v), -1);
    }
    for (std::int32_t p = 0; p < runs_.size(); ++p) visit(p);
    const auto backward = [&](OpId id) { return graph_.op(id).phase == Phase::backward; };
    lives_.backward = static_cast<std::int32_t>(std::find_if(runs_.begin(), runs_.end(), backward) - runs_.begin());
    for (ValueId output : graph_.outputs())
      if (newest_[output] != kNone) life_of(output).end = static_cast<std::int32_t>(runs_.size()) - 1;
    take_over();
    return std::move(lives_);
  }

 private:
  static constexpr std::int32_t kNone = -1;

  Life& life_of(ValueId id) { return lives_.all[newest_[id]]; }
  bool in_weights(ValueId id) const { return graph_.value(id).persistent() || graph_.value(id).version_of; }

  void begin_life(ValueId id, std::int32_t position) {
    newest_[id] = static_cast<std::int32_t>(lives_.all.size());
    const std::int32_t from = std::max(position, 0);
    lives_.all.push_back({id, packed_bytes(request_, id), position, from, {}, from, kNone});
  }

  void visit(std::int32_t position) {
    const OpId id = runs_[position];
    if (!on_host_.empty() && on_host_[id]) {
      lives_.seconds.push_back(0);
      lives_.workspace.push_back(0);
      return;
    }
    const Op& op = graph_.op(id);
    const SplitRun* split = splits_.at(position);
    for (ValueId input : split ? split->reads : op.inputs) {
      if (in_weights(input) || splits_.streams(input)) continue;
      if (newest_[input] == kNone)
        internal_error("run {} (op {}) reads {}, which no run has made", position, op.name, graph_.value(input).name);
      Life& life = life_of(input);
      if (life.uses.empty() || life.uses.back() != position) life.uses.push_back(position);
      life.end = std::max(life.end, position);
    }
    for (ValueId output : split ? split->makes : op.outputs)
      if (!in_weights(output) && !splits_.streams(output)) begin_life(output, position);
    lives_.seconds.push_back(split ? split->seconds : costs_.seconds[id]);
    lives_.workspace.push_back(align_up(split ? split->bytes : costs_.workspace[id], kAlignment));
  }

  // Outputs that overwrite an input which ends there take no bytes of their own during that run.
  void take_over() {
    Table<std::vector<std::int32_t>> made(runs_.size());
    Table<std::vector<std::int32_t>> ended(runs_.size());
    for (std::int32_t k = 0; k < lives_.all.size(); ++k) {
      const Life& life = lives_.all[k];
      if (life.made >= 0) made[life.made].push_back(k);
      if (life.made >= 0 && !life.uses.empty() && life.end == life.uses.back()) ended[life.end].push_back(k);
    }
    for (std::int64_t p = 0; p < runs_.size(); ++p) {
      if (splits_.at(p)) continue;
      const Op& op = graph_.op(runs_[p]);
      const auto life_in = [&](const std::vector<std::int32_t>& lives, ValueId value) {
        const auto found = std::ranges::find(lives, value, [&](std::int32_t k) { return lives_.all[k].value; });
        return found == lives.end() ? kNone : *found;
      };
      const auto source = [&](const InPlacePair& pair) { return life_in(ended[p], op.inputs[pair.input]); };
      const auto target = [&](const InPlacePair& pair) { return life_in(made[p], op.outputs[pair.output]); };
      const auto may = [&](const InPlacePair& pair) {
        const std::int32_t from = source(pair), to = target(pair);
        return from != kNone && to != kNone && lives_.all[from].bytes == lives_.all[to].bytes;
      };
      for (const InPlacePair& pair : in_place_pairs({graph_, op}, may)) {
        Life& life = lives_.all[target(pair)];
        life.takes_over = source(pair);
        ++life.begin;
      }
    }
  }

  const Graph& graph_;
  const PlanRequest& request_;
  const OpCosts& costs_;
  const Runs& runs_;
  const IdVector<OpId, bool>& on_host_;
  const Splits& splits_;
  IdVector<ValueId, std::int32_t> newest_;  // the life that a read of a value takes
  Lives lives_;
};

}  // namespace

std::vector<std::int64_t> Lives::bytes() const {
  Table<std::int64_t> change(workspace.size() + 1, 0);
  for (const Life& life : all) {
    if (life.begin > life.end) continue;
    change[life.begin] += life.bytes;
    change[life.end + 1] -= life.bytes;
  }
  std::vector<std::int64_t> sums(workspace.size());
  std::int64_t live = persistent;
  for (std::size_t p = 0; p < sums.size(); ++p) {
    live += change[p];
    sums[p] = live + workspace[p];
  }
  return sums;
}

bool only_read_by(const Graph& graph, ValueId value, const IdVector<OpId, bool>& ops) {
  const std::vector<OpId>& readers = graph.value(value).consumers;
  return !ops.empty() && !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](OpId reader) { return ops[reader]; });
}

std::int64_t packed_bytes(const PlanRequest& request, ValueId id) {
  if (request.costs) return request.costs->bytes[id];
  const ValueType& type = request.graph.value(id).type;
  return align_up(stored_bytes(request.storage, type, type.shape), kAlignment);
}

Call whole_call(const Graph& graph, const Op& op) {
  const OpSite site{graph, op};
  CallBoxes boxes;
  for (ValueId input : op.inputs) boxes.in.push_back(Box::whole(graph.value(input).type.shape));
  for (ValueId output : op.outputs) boxes.out.push_back(Box::whole(graph.value(output).type.shape));
  const Box owned = boxes.in.empty() || !op.def->has_owned_terms(site) ? Box() : boxes.in[op.def->push_driver(site)];
  return {site, std::move(boxes), owned};
}

OpCosts costs_of(const PlanRequest& request) {
  if (request.costs) return *request.costs;
  OpCosts costs;
  for (const Op& op : request.graph.ops()) {
    const Call call = whole_call(request.graph, op);
    costs.seconds.push_back(request.profile.seconds_of(call));
    costs.workspace.push_back(request.workspace ? request.workspace(call) : 0);
  }
  for (std::int64_t v = 0; v < request.graph.value_count(); ++v) costs.bytes.push_back(packed_bytes(request, ValueId(v)));
  return costs;
}

Lives lives_of(const PlanRequest& request, const OpCosts& costs, const Runs& runs, const IdVector<OpId, bool>& on_host,
               const Splits& splits) {
  return Follower(request, costs, runs, on_host, splits).run();
}

Refusal refusal_of(const PlanRequest& request, std::string_view planner, std::int64_t needed, OpId op) {
  return {.planner = std::string(planner),
          .program = request.graph.name,
          .budget = request.budgets.device,
          .needed = needed,
          .at = "op " + request.graph.op(op).name,
          .disk = request.budgets.disk > 0};
}

Refusal refusal_of(const PlanRequest& request, std::string_view planner, std::string reason) {
  return {.planner = std::string(planner), .program = request.graph.name, .reason = std::move(reason)};
}

}  // namespace outsize
