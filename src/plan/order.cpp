#include "plan/order.h"

#include "graph/opdef.h"

namespace outsize {

std::vector<OpId> eager_order(const Graph& graph) {
  // An update waits for its inputs' producers and for the other readers of what it replaces.
  std::vector<int> missing(static_cast<std::size_t>(graph.op_count()), 0);
  std::vector<std::vector<OpId>> wakes(static_cast<std::size_t>(graph.op_count()));
  const auto updates = [&](OpId id) { return graph.op(id).phase == Phase::update; };
  for (std::int64_t i = 0; i < graph.op_count(); ++i) {
    const OpId id(i);
    if (!updates(id)) continue;
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
    if (!updates(OpId(i)) || waits_for_nothing[static_cast<std::size_t>(i)]) run(OpId(i));
  OUTSIZE_CHECK(order.size() == static_cast<std::size_t>(graph.op_count()));
  return order;
}

}  // namespace outsize
