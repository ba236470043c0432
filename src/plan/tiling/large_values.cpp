#include "plan/tiling/large_values.h"

#include <algorithm>

#include "graph/opdef.h"

namespace outsize {

namespace {

constexpr std::size_t kMostOps = 32;

bool has(const std::vector<OpId>& ops, OpId id) { return std::ranges::find(ops, id) != ops.end(); }

// The ops that make or read the value, its gradient, or anything about as large that they make.
std::vector<OpId> ops_around(const PlanRequest& request, ValueId value) {
  const Graph& graph = request.graph;
  const std::int64_t large = packed_bytes(request, value) / 2;
  std::vector<OpId> ops{graph.value(value).producer};
  for (std::size_t k = 0; k < ops.size() && ops.size() <= kMostOps; ++k)
    for (ValueId output : graph.op(ops[k]).outputs) {
      const Value& made = graph.value(output);
      const bool of_weights = made.gradient_of && graph.value(made.gradient_of).persistent();
      if (packed_bytes(request, output) < large || of_weights) continue;
      for (OpId reader : made.consumers)
        if (!has(ops, reader)) ops.push_back(reader);
    }
  return ops;
}

// Whether the ops take nothing of each other that is complete only after the last piece, and keep nothing large to themselves.
bool can_join(const PlanRequest& request, const std::vector<OpId>& ops) {
  const Graph& graph = request.graph;
  if (ops.size() < 2 || ops.size() > kMostOps) return false;
  return std::ranges::all_of(ops, [&](OpId id) {
    const Op& op = graph.op(id);
    return op.phase != Phase::update && std::ranges::all_of(op.inputs, [&](ValueId input) {
             const OpId producer = graph.value(input).producer;
             return !has(ops, producer) || graph.op(producer).def->can_gather({graph, graph.op(producer)});
           });
  });
}

// The order with the ops together and updates last: what lies between them runs before where it can, else after. Nothing where it
// can do neither, or where forward would not come first.
std::vector<OpId> together(const Graph& graph, const std::vector<OpId>& order, std::vector<OpId>& ops) {
  IdVector<OpId, bool> is_one(graph.op_count(), false), follows(is_one);
  for (OpId op : ops) is_one[op] = true;
  ops.clear();
  std::vector<OpId> before, after, updates;
  std::size_t left = 0;
  for (OpId op : order) left += is_one[op];
  for (OpId id : order) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::update) {
      updates.push_back(id);
      continue;
    }
    bool waits = false, waits_for_one = false;
    for (ValueId input : op.inputs)
      if (const OpId producer = graph.value(input).producer) {
        waits = waits || follows[producer];
        waits_for_one = waits_for_one || is_one[producer];
      }
    if (is_one[id]) {
      if (waits) return {};
      ops.push_back(id);
      --left;
    } else if (left > 0 && !waits && !waits_for_one) {
      before.push_back(id);
    } else {
      if (left > 0 && op.phase == Phase::forward) return {};
      follows[id] = true;
      after.push_back(id);
    }
  }
  before.insert(before.end(), ops.begin(), ops.end());
  before.insert(before.end(), after.begin(), after.end());
  before.insert(before.end(), updates.begin(), updates.end());
  return before;
}

}  // namespace

std::optional<LargeValue> find_large_value(const PlanRequest& request, const std::vector<OpId>& order, std::int64_t least_bytes) {
  const Graph& graph = request.graph;
  LargeValue found;
  std::int64_t most = least_bytes - 1;
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    const bool made = value.producer && graph.op(value.producer).phase == Phase::forward && !graph.is_output(ValueId(v));
    if (!made || value.role != Role::activation || packed_bytes(request, ValueId(v)) <= most) continue;
    most = packed_bytes(request, ValueId(v));
    found.value = ValueId(v);
  }
  if (!found.value) return std::nullopt;
  found.ops = ops_around(request, found.value);
  if (!can_join(request, found.ops)) return std::nullopt;
  MicroOps micro(request);
  const Dims& shape = graph.value(found.value).type.shape;
  for (const int dim : {0, 1})
    if (shape.rank() > dim + 1 && std::ranges::all_of(found.ops, [&](OpId op) { return micro.can_cut(op, dim); })) {
      found.dims.push_back(dim);
      found.counts.push_back(shape[dim]);
    }
  if (found.dims.empty()) return std::nullopt;
  found.order = together(graph, order, found.ops);
  if (found.order.empty()) return std::nullopt;
  return found;
}

std::optional<Runs> joined_runs(const Graph& graph, const Runs& runs, const LargeValue& large) {
  Runs made;
  std::vector<OpId> updates;  // between the ops
  std::size_t next = 0;
  for (const OpId run : runs) {
    const bool inside = next > 0 && next < large.ops.size();
    if (next < large.ops.size() && run == large.ops[next]) {
      if (++next < large.ops.size()) continue;
      made.push_back(run);
      for (OpId update : updates) made.push_back(update);
    } else if (has(large.ops, run) || (inside && graph.op(run).phase != Phase::update)) {
      return std::nullopt;
    } else if (inside) {
      updates.push_back(run);
    } else {
      made.push_back(run);
    }
  }
  if (next < large.ops.size()) return std::nullopt;
  return made;
}

}  // namespace outsize
