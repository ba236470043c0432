#include "plan/analysis/order.h"

#include <algorithm>

#include "base/id_vector.h"
#include "graph/opdef.h"

namespace outsize {

namespace {

// Whether only updates read what an op of backward makes, as the gradient of a weight.
bool only_for_updates(const Graph& graph, const Op& op) {
  const auto is_update = [&](OpId reader) { return graph.op(reader).phase == Phase::update; };
  const auto only_read_by_updates = [&](ValueId output) {
    const std::vector<OpId>& readers = graph.value(output).consumers;
    return !readers.empty() && !graph.is_output(output) && std::ranges::all_of(readers, is_update);
  };
  return op.phase == Phase::backward && !op.outputs.empty() && std::ranges::all_of(op.outputs, only_read_by_updates);
}

std::int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::int64_t bytes = 0;
  for (const ValueId value : values) bytes += graph.value(value).type.elements() * size_of(graph.value(value).type.dtype);
  return bytes;
}

}  // namespace

std::vector<OpId> narrow_order(const Graph& graph) {
  // No op moves further than this, so that the search stays short.
  constexpr std::int64_t kFurthest = 64;
  IdVector<OpId, std::vector<OpId>> behind(graph.op_count());
  IdVector<OpId, bool> moved(graph.op_count(), false);
  for (std::int64_t k = 0; k < graph.op_count(); ++k) {
    const Op& op = graph.op(OpId(k));
    if (!only_for_updates(graph, op)) continue;
    OpId last;
    for (const ValueId input : op.inputs) last = std::max(last, graph.value(input).producer);
    if (!last || k - last.index > kFurthest) continue;
    // What ops between that read the same make: the gradient of the data.
    std::int64_t others = 0;
    for (OpId between(last.index + 1); between.index < k; between = OpId(between.index + 1)) {
      const auto shared = [&](ValueId input) { return std::ranges::find(op.inputs, input) != op.inputs.end(); };
      if (std::ranges::any_of(graph.op(between).inputs, shared)) others += bytes_of(graph, graph.op(between).outputs);
    }
    if (bytes_of(graph, op.outputs) > others) continue;
    behind[last].push_back(OpId(k));
    moved[OpId(k)] = true;
  }
  std::vector<OpId> order;
  for (std::int64_t k = 0; k < graph.op_count(); ++k) {
    if (moved[OpId(k)]) continue;
    order.push_back(OpId(k));
    for (std::size_t at = order.size() - 1; at < order.size(); ++at)
      order.insert(order.end(), behind[order[at]].begin(), behind[order[at]].end());
  }
  OUTSIZE_CHECK(std::ssize(order) == graph.op_count());
  return order;
}

std::vector<OpId> eager_order(const Graph& graph) {
  std::vector<OpId> order;
  for (std::int64_t k = 0; k < graph.op_count(); ++k) order.emplace_back(k);
  return eager_order(graph, order);
}

std::vector<OpId> eager_order(const Graph& graph, const std::vector<OpId>& from) {
  // An update waits for its inputs' producers and for the other readers of what it replaces; what backward makes a single number
  // of (the norm of a gradient) waits for nothing but its inputs.
  IdVector<OpId, int> missing(graph.op_count(), 0);
  IdVector<OpId, std::vector<OpId>> wakes(graph.op_count());
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
      ++missing[OpId(i)];
      wakes[other].push_back(id);
    };
    for (ValueId input : op.inputs)
      if (graph.value(input).producer) wait_for(graph.value(input).producer);
    for (const InPlacePair& pair : op.updates)
      for (OpId reader : graph.value(op.inputs[pair.input]).consumers)
        if (reader != id) wait_for(reader);
  }
  std::vector<bool> waits_for_nothing;
  for (const int count : missing) waits_for_nothing.push_back(count == 0);
  std::vector<OpId> order;
  const auto run = [&](OpId id) {
    order.push_back(id);
    for (std::size_t k = order.size() - 1; k < order.size(); ++k)  // what a run wakes may wake more
      for (OpId next : wakes[order[k]])
        if (--missing[next] == 0) order.push_back(next);
  };
  for (const OpId id : from)
    if (!eager(id) || waits_for_nothing[id.index]) run(id);
  OUTSIZE_CHECK(std::ssize(order) == graph.op_count());
  return order;
}

std::vector<OpId> depth_first_order(const Graph& graph) {
  IdVector<OpId, std::int64_t> references(graph.op_count(), 0);  // inputs that are not made yet
  constexpr std::size_t kPhases = 3;
  std::vector<OpId> ready[kPhases];  // of each phase: what may run, the next last
  const auto make_ready = [&](OpId id) { ready[static_cast<std::size_t>(graph.op(id).phase)].push_back(id); };
  for (std::int64_t i = graph.op_count(); i-- > 0;) {
    for (ValueId input : graph.op(OpId(i)).inputs) references[OpId(i)] += graph.value(input).producer.valid();
    if (references[OpId(i)] == 0) make_ready(OpId(i));
  }
  const auto ends_here = [&](OpId id) {
    const std::vector<ValueId>& outputs = graph.op(id).outputs;
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      const std::vector<OpId>& readers = graph.value(output).consumers;
      return std::all_of(readers.begin(), readers.end(), [&](OpId reader) { return graph.op(reader).phase == Phase::update; });
    });
  };
  std::vector<OpId> order;
  for (std::vector<OpId>& stack : ready)
    while (!stack.empty()) {
      const OpId id = stack.back();
      stack.pop_back();
      order.push_back(id);
      std::vector<OpId> freed;
      for (ValueId output : graph.op(id).outputs)
        for (OpId reader : graph.value(output).consumers) {
          const std::vector<ValueId>& inputs = graph.op(reader).inputs;
          references[reader] -= std::count(inputs.begin(), inputs.end(), output);
          if (references[reader] == 0) freed.push_back(reader);
        }
      std::stable_partition(freed.begin(), freed.end(), ends_here);
      for (std::size_t k = freed.size(); k-- > 0;) make_ready(freed[k]);
    }
  OUTSIZE_CHECK(std::ssize(order) == graph.op_count());
  return order;
}

}  // namespace outsize
