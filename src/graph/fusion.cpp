#include "graph/fusion.h"

#include <optional>

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

bool unused(const Graph& graph, ValueId id) { return graph.value(id).consumers.empty() && !graph.is_output(id); }

// Whether `value` is nothing but what passes from its producer to `second`, so that it may disappear.
bool passes_only_to(const Graph& graph, ValueId id, OpId second) {
  const Value& value = graph.value(id);
  if (!value.producer || value.producer_output != 0 || value.consumers != std::vector{second} || graph.is_output(id)) return false;
  const Op& first = graph.op(value.producer);
  for (std::size_t i = 1; i < first.outputs.size(); ++i)
    if (!unused(graph, first.outputs[i])) return false;
  return true;
}

std::optional<FusedOp> offer(const Graph& graph, const Op& first, const Op& second) {
  if (first.phase != Phase::forward || second.phase != Phase::forward) return std::nullopt;
  if (auto fused = second.def->fuse(graph, first, second)) return fused;
  return first.def->fuse(graph, first, second);
}

// The pairs one scan fuses: by op, what stands in its place, and the op that went into it.
struct Fusions {
  IdVector<OpId, std::optional<FusedOp>> at_second;
  IdVector<OpId, OpId> first_of;
  IdVector<OpId, bool> gone;  // the first of a pair
  bool any = false;
};

// From the back, so that a relu between convolution and pooling goes to the pooling, where it shrinks what backward keeps.
Fusions find_fusions(const Graph& graph) {
  Fusions fusions;
  fusions.at_second.resize(graph.op_count());
  fusions.first_of.resize(graph.op_count());
  fusions.gone.resize(graph.op_count());
  for (std::int64_t i = graph.op_count() - 1; i >= 0; --i) {
    const OpId second(i);
    if (fusions.gone[second]) continue;
    for (ValueId input : graph.op(second).inputs) {
      if (!passes_only_to(graph, input, second)) continue;
      const OpId first = graph.value(input).producer;
      fusions.at_second[second] = offer(graph, graph.op(first), graph.op(second));
      if (!fusions.at_second[second]) continue;
      fusions.first_of[second] = first;
      fusions.gone[first] = true;
      fusions.any = true;
      break;
    }
  }
  return fusions;
}

Graph rebuild(const Graph& graph, const Fusions& fusions) {
  Graph rebuilt;
  rebuilt.name = graph.name;
  IdVector<ValueId, ValueId> renumbered(graph.value_count());
  const auto moved = [&](ValueId id) {
    const ValueId now = renumbered[id];
    OUTSIZE_CHECK(now.valid());
    return now;
  };

  for (std::int64_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (!value.producer) {
      renumbered[ValueId(i)] = rebuilt.add_value(value.name, value.type, value.role, value.init);
      continue;
    }
    if (value.producer_output != 0 || fusions.gone[value.producer]) continue;
    const Op& op = graph.op(value.producer);
    const std::optional<FusedOp>& fused = fusions.at_second[value.producer];
    const std::string& name = fused ? graph.op(fusions.first_of[value.producer]).name : op.name;
    std::vector<ValueId> inputs;
    for (ValueId input : fused ? fused->inputs : op.inputs) inputs.push_back(moved(input));
    std::vector<std::string> names;
    for (ValueId output : op.outputs) names.push_back(graph.value(output).name);
    const OpId made = rebuilt.add_op(name, fused ? *fused->def : *op.def, std::move(inputs),
                                     fused ? fused->attributes : op.attributes, std::move(names), op.phase);
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const ValueId output = rebuilt.op(made).outputs[o];
      OUTSIZE_CHECK(rebuilt.value(output).type == graph.value(op.outputs[o]).type);
      renumbered[op.outputs[o]] = output;
    }
  }
  for (ValueId output : graph.outputs()) rebuilt.add_output(moved(output));
  return rebuilt;
}

}  // namespace

Graph fuse(const Graph& graph) {
  for (const Op& op : graph.ops()) OUTSIZE_CHECK(op.phase != Phase::backward);
  Graph fused = graph;
  for (Fusions found = find_fusions(fused); found.any; found = find_fusions(fused)) fused = rebuild(fused, found);
  return fused;
}

}  // namespace outsize
