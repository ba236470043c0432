#include "plan/tiling/alike.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// All that the cost of an op in tiles depends on, but for where its values wait and how it is cut.
std::string description_of(const PlanRequest& request, OpId id) {
  const Graph& graph = request.graph;
  const Op& op = graph.op(id);
  const Call call = whole_call(graph, op);
  std::string text =
      fmt::format("{} {} {}", signature(call), static_cast<int>(op.phase), request.costs ? request.costs->workspace[id] : 0);
  // Of what makes a value: its phase, and whether it is a reduction.
  const auto maker = [&](const Value& value) {
    if (!value.producer) return -1;
    const Op& from = graph.op(value.producer);
    return 2 * static_cast<int>(from.phase) + (from.def->can_gather({graph, from}) || from.def->gathers_sums({graph, from}));
  };
  std::vector<ValueId> values = op.inputs;
  values.insert(values.end(), op.outputs.begin(), op.outputs.end());
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Value& value = graph.value(values[k]);
    const auto first = std::ranges::find(values, values[k]) - values.begin();
    text += fmt::format(" {}:{}:{}:{}:{}", static_cast<int>(value.role), maker(value), value.version_of.valid(),
                        static_cast<int>(value.type.format), first);
  }
  for (const InPlacePair& update : op.updates) text += fmt::format(" {}>{}", update.input, update.output);
  return text;
}

}  // namespace

IdVector<OpId, std::int32_t> alike_ops(const PlanRequest& request) {
  std::unordered_map<std::string, std::int32_t> numbers;
  IdVector<OpId, std::int32_t> kinds;
  for (std::int64_t op = 0; op < request.graph.op_count(); ++op)
    kinds.push_back(
        numbers.try_emplace(description_of(request, OpId(op)), static_cast<std::int32_t>(numbers.size())).first->second);
  return kinds;
}

PassMemory::PassMemory(const PlanRequest& request)
    : graph_(request.graph), kinds_(alike_ops(request)), number_(request.graph.value_count(), kNone) {}

std::int32_t PassMemory::kind_of(const Plan& plan, const Pass& pass, const IdSet<ValueId>& read_later) {
  std::vector<ValueId> values;
  for (const OpId op : pass.ops)
    for (const std::vector<ValueId>* list : {&graph_.op(op).inputs, &graph_.op(op).outputs})
      values.insert(values.end(), list->begin(), list->end());
  std::vector<ValueId> distinct;  // in the order in which they are met
  for (const ValueId value : values)
    if (number_[value] == kNone) {
      number_[value] = static_cast<std::int32_t>(distinct.size());
      distinct.push_back(value);
    }
  const IdSet<ValueId> share(pass.share);
  std::vector<std::int32_t> text{number_[pass.driver], pass.descending, pass.gather_gradients, pass.ahead};
  for (const OpId op : pass.ops) text.push_back(kinds_[op]);
  for (const ValueId value : values) text.push_back(number_[value]);
  for (const ValueId id : distinct) {
    const Value& value = graph_.value(id);
    const bool of_shared = !value.partial && value.gradient_of && share.contains(value.gradient_of);
    text.push_back(static_cast<std::int32_t>(home_of(graph_, plan, id)));
    text.push_back(static_cast<std::int32_t>(plan.home_of(id)));
    text.push_back(read_later.contains(id) + 2 * share.contains(id) + 4 * of_shared);
    number_[id] = kNone;
  }
  return passes_.try_emplace(std::move(text), static_cast<std::int32_t>(passes_.size())).first->second;
}

PassMemory::Known& PassMemory::at(std::int32_t kind, const Dims& learned, const Dims& extents) {
  std::vector<std::int64_t> key{kind, learned.rank()};
  key.insert(key.end(), learned.begin(), learned.end());
  key.insert(key.end(), extents.begin(), extents.end());
  return known_[std::move(key)];
}

}  // namespace outsize
