#include "plan/tiling/weights.h"

#include <algorithm>
#include <optional>

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

// The dimension of output 0 of which a part needs only a part of that input; −1 where there is none.
int dim_that_cuts(const OpSite& site, int input) {
  const Dims& shape = site.out(0).shape;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] == 1) continue;
    Box box = Box::whole(shape);
    box.set(dim, {0, 1});
    if (site.op.def->gather(site, box).in[input].elements() < site.in(input).elements()) return dim;
  }
  return -1;
}

int input_of(const Op& op, ValueId value) {
  return static_cast<int>(std::find(op.inputs.begin(), op.inputs.end(), value) - op.inputs.begin());
}

}  // namespace

std::optional<WeightUses> weight_uses(const Graph& graph, ValueId weight) {
  WeightUses uses;
  for (OpId id : graph.value(weight).consumers) {
    const Op& op = graph.op(id);
    const OpSite site{graph, op};
    if (op.phase == Phase::update) {
      uses.update = id;
      continue;
    }
    if (!op.def->can_gather(site) || dim_that_cuts(site, input_of(op, weight)) < 0) return std::nullopt;
    uses.readers.push_back(id);
  }
  if (uses.readers.empty()) return std::nullopt;
  if (!uses.update) return uses;
  for (ValueId input : graph.op(uses.update).inputs) {
    const Value& value = graph.value(input);
    if (value.persistent() && input != weight) uses.states.push_back(input);
    if (value.gradient_of != weight) continue;
    const Op& producer = graph.op(value.producer);
    if (value.consumers.size() == 1 && !graph.is_output(input) && producer.def->gathers_sums({graph, producer}))
      uses.gradient = value.producer;
  }
  if (!uses.gradient) return std::nullopt;
  return uses;
}

int dim_that_cuts_weight(const Graph& graph, OpId op, ValueId weight) {
  return dim_that_cuts({graph, graph.op(op)}, input_of(graph.op(op), weight));
}

std::vector<ValueId> splittable_weights(const Graph& graph, const Plan& plan) {
  IdVector<OpId, bool> whole(graph.op_count(), false);
  for (const Step& step : plan.steps)
    if (const auto* run = std::get_if<RunStep>(&step)) whole[run->op] = true;
  for (const Pass& pass : plan.passes)
    for (OpId op : pass.ops) whole[op] = false;
  const auto runs_whole = [&](OpId op) { return whole[op]; };
  std::vector<ValueId> found;
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    if (value.role != Role::parameter || value.producer || value.type.shape.rank() < 2) continue;
    const std::optional<WeightUses> uses = weight_uses(graph, ValueId(v));
    if (uses && (!uses->update || (runs_whole(uses->gradient) && runs_whole(uses->update))) &&
        std::all_of(uses->readers.begin(), uses->readers.end(), runs_whole))
      found.push_back(ValueId(v));
  }
  return found;
}

std::int64_t bytes_with_states(const Graph& graph, ValueId weight) {
  const std::optional<WeightUses> uses = weight_uses(graph, weight);
  const ValueType& type = graph.value(weight).type;
  return type.elements() * size_of(type.dtype) * (1 + (uses ? static_cast<std::int64_t>(uses->states.size()) : 0));
}

void split_weights(const Graph& graph, Plan& plan, const std::vector<ValueId>& weights) {
  if (weights.empty()) return;
  enum class Becomes : std::uint8_t { itself, pass, nothing };
  IdVector<OpId, Becomes> becomes(graph.op_count(), Becomes::itself);
  const auto of = [&](OpId op) -> Becomes& { return becomes[op]; };
  IdVector<OpId, OpId> update_with(becomes.size());  // by gradient op
  for (ValueId weight : weights) {
    const std::optional<WeightUses> uses = weight_uses(graph, weight);
    OUTSIZE_CHECK(uses);
    for (OpId reader : uses->readers) of(reader) = Becomes::pass;
    plan.home[weight] = Tier::host;
    if (!uses->update) continue;
    of(uses->gradient) = Becomes::pass;
    of(uses->update) = Becomes::nothing;
    update_with[uses->gradient] = uses->update;
    for (ValueId state : uses->states) plan.home[state] = Tier::host;
  }
  std::vector<Step> steps;
  std::vector<Pass> passes;  // in the order of the steps
  const auto add = [&](Pass pass) {
    steps.push_back(PassStep{static_cast<int>(passes.size())});
    passes.push_back(std::move(pass));
  };
  for (const Step& step : plan.steps) {
    if (const auto* pass = std::get_if<PassStep>(&step)) {
      add(plan.passes[pass->pass]);
      continue;
    }
    const auto* run = std::get_if<RunStep>(&step);
    if (!run || of(run->op) == Becomes::itself) {
      steps.push_back(step);
      continue;
    }
    if (of(run->op) == Becomes::nothing) continue;
    Pass pass;
    pass.name = "weights." + std::to_string(passes.size());
    pass.ops = {run->op};
    pass.driver = graph.op(run->op).outputs[0];
    // The gradient of some rows goes into the update of these rows at once.
    if (const OpId update = update_with[run->op]) {
      pass.ops.push_back(update);
      pass.driver = graph.op(update).outputs[0];
    }
    add(std::move(pass));
  }
  plan.steps = std::move(steps);
  plan.passes = std::move(passes);
}

int weight_dim(const Graph& graph, const Plan& plan, const Pass& pass) {
  if (graph.value(pass.driver).version_of) return 0;
  const Op& op = graph.op(pass.ops[0]);
  for (int i = 0; pass.ops.size() == 1 && i < static_cast<int>(op.inputs.size()); ++i) {
    const ValueId input = op.inputs[i];
    if (graph.value(input).persistent() && plan.home_of(input) != Tier::device) return dim_that_cuts({graph, op}, i);
  }
  return -1;
}

}  // namespace outsize
