#include "plan/order.h"

#include <algorithm>

#include "graph/opdef.h"

namespace outsize {

std::vector<OpId> eager_order(const Graph& graph) {
  // An update waits for its inputs' producers and for the other readers of what it replaces; what backward makes a single number
  // of (the norm of a gradient) waits for nothing but its inputs.
  std::vector<int> missing(static_cast<std::size_t>(graph.op_count()), 0);
  std::vector<std::vector<OpId>> wakes(static_cast<std::size_t>(graph.op_count()));
  const auto eager = [&](OpId id) {
    const Op& op = graph.op(id);
    if (op.phase != Phase::backward) return op.phase == Phase::update;
    const auto single = [&](ValueId v) { return graph.value(v).type.elements() == 1; };
    const auto of_backward = [&](ValueId v) {
      const OpId producer = graph.value(v).producer;
      return producer && graph.op(producer).phase == Phase::backward;
    };
    return std::all_of(op.outputs.begin(), op.outputs.end(), single) &&
           std::any_of(op.inputs.begin(), op.inputs.end(), of_backward);
  };
  for (std::int64_t i = 0; i < graph.op_count(); ++i) {
    const OpId id(i);
    if (!eager(id)) continue;
    const Op& op = graph.op(id);
    const auto wait_for = [&](OpId other) {
      ++missing[static_cast<std::size_t>(i)];
      wakes[static_cast<std::size_t>(other.index)].push_back(id);
    };
    for (ValueId input : op.inputs)
      if (graph.value(input).producer) wait_for(graph.value(input).producer);
    for (const InPlacePair& pair : op.def->updates({graph, op}))
      for (OpId reader : graph.value(op.inputs[static_cast<std::size_t>(pair.input)]).consumers)
        if (reader != id) wait_for(reader);
  }
  std::vector<bool> waits_for_nothing;
  for (const int count : missing) waits_for_nothing.push_back(count == 0);
  std::vector<OpId> order;
  const auto run = [&](OpId id) {
    order.push_back(id);
    for (std::size_t k = order.size() - 1; k < order.size(); ++k)  // what a run wakes may wake more
      for (OpId next : wakes[static_cast<std::size_t>(order[k].index)])
        if (--missing[static_cast<std::size_t>(next.index)] == 0) order.push_back(next);
  };
  for (std::int64_t i = 0; i < graph.op_count(); ++i)
    if (!eager(OpId(i)) || waits_for_nothing[static_cast<std::size_t>(i)]) run(OpId(i));
  OUTSIZE_CHECK(order.size() == static_cast<std::size_t>(graph.op_count()));
  return order;
}

}  // namespace outsize
