#include "plan/groups.h"

#include <algorithm>

#include "plan/order.h"

namespace outsize {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

std::vector<Group> groups_of(const Graph& graph) {
  std::vector<OpId> forward;
  for (OpId id : eager_order(graph))
    if (graph.op(id).phase == Phase::forward) forward.push_back(id);
  std::vector<std::int64_t> position(at(graph.op_count()), -1);
  for (std::size_t p = 0; p < forward.size(); ++p) position[at(forward[p].index)] = static_cast<std::int64_t>(p);

  // Values that are made before a position and read at it or later.
  struct Reach {
    ValueId value;
    std::int64_t from, to;  // made at, last read at
  };
  std::vector<Reach> reaches;
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    if (value.persistent() || !is_float(value.type.dtype)) continue;
    if (value.producer ? position[at(value.producer.index)] < 0 : value.name != "x") continue;
    std::int64_t last = -1;
    for (OpId reader : value.consumers) last = std::max(last, position[at(reader.index)]);
    const std::int64_t from = value.producer ? position[at(value.producer.index)] : -1;
    if (last > from) reaches.push_back({ValueId(v), from, last});
  }
  std::stable_sort(reaches.begin(), reaches.end(), [](const Reach& a, const Reach& b) { return a.from < b.from; });
  std::size_t next = 0;
  std::vector<Reach> open;
  std::vector<Group> groups;
  ValueId leading;
  for (std::size_t p = 0; p < forward.size(); ++p) {
    for (; next < reaches.size() && reaches[next].from < static_cast<std::int64_t>(p); ++next) open.push_back(reaches[next]);
    std::erase_if(open, [&](const Reach& reach) { return reach.to < static_cast<std::int64_t>(p); });
    if (open.size() == 1 || groups.empty()) {
      leading = open.empty() ? ValueId{} : open.front().value;
      if (!groups.empty()) groups.back().output = leading;
      groups.push_back({{}, {}, leading, {}, {}});
    }
    groups.back().forward.push_back(forward[p]);
  }

  std::vector<std::size_t> group_of(at(graph.op_count()), 0);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (OpId id : groups[g].forward) group_of[at(id.index)] = g;
  for (OpId id : eager_order(graph)) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::backward) groups[op.forward ? group_of[at(op.forward.index)] : 0].backward.push_back(id);
  }
  for (Group& group : groups)
    for (OpId id : group.forward)
      for (ValueId made : graph.op(id).outputs) {
        const std::vector<OpId>& readers = graph.value(made).consumers;
        if (std::any_of(readers.begin(), readers.end(), [&](OpId reader) { return graph.op(reader).phase == Phase::backward; }))
          group.saved.push_back(made);
      }
  return groups;
}

}  // namespace outsize
