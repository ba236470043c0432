#include "plan/analysis/groups.h"

#include <algorithm>

#include "base/id_vector.h"
#include "base/table.h"
#include "plan/analysis/order.h"

namespace outsize {

std::vector<Group> groups_of(const Graph& graph) {
  Table<OpId> forward;
  for (OpId id : eager_order(graph))
    if (graph.op(id).phase == Phase::forward) forward.push_back(id);
  IdVector<OpId, std::int64_t> position(graph.op_count(), -1);
  for (std::int64_t p = 0; p < forward.size(); ++p) position[forward[p]] = p;

  // How many values are made before a position and read at it or later, and the sum of their ids: of a single one, its id.
  Table<std::int64_t> count(forward.size() + 1, 0), ids(forward.size() + 1, 0);  // changes from one position to the next
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(ValueId(v));
    if (value.persistent() || !is_float(value.type.dtype)) continue;
    if (value.producer ? position[value.producer] < 0 : value.name != "x") continue;
    std::int64_t last = -1;
    for (OpId reader : value.consumers) last = std::max(last, position[reader]);
    const std::int64_t from = value.producer ? position[value.producer] : -1;
    if (last <= from) continue;
    ++count[from + 1], --count[last + 1];
    ids[from + 1] += v, ids[last + 1] -= v;
  }
  std::vector<Group> groups;
  std::int64_t open = 0, sum = 0;
  for (std::int64_t p = 0; p < forward.size(); ++p) {
    open += count[p];
    sum += ids[p];
    if (open == 1 || groups.empty()) {
      const ValueId leading = open == 1 ? ValueId(sum) : ValueId{};
      if (!groups.empty()) groups.back().output = leading;
      groups.push_back({{}, {}, leading, {}, {}});
    }
    groups.back().forward.push_back(forward[p]);
  }

  IdVector<OpId, std::size_t> group_of(graph.op_count(), 0);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (OpId id : groups[g].forward) group_of[id] = g;
  for (OpId id : eager_order(graph)) {
    const Op& op = graph.op(id);
    if (op.phase == Phase::backward) groups[op.forward ? group_of[op.forward] : 0].backward.push_back(id);
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
