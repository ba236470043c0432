#include "plan/swap/visits.h"

#include <algorithm>

namespace outsize {

bool runs_on_host(const SpillChoice& choice, std::int32_t run) {
  return !choice.on_host.empty() && choice.on_host[choice.runs[run]];
}

IdVector<ValueId, bool> away_of(const PlanRequest& request, IdVector<ValueId, bool> away) {
  const Graph& graph = request.graph;
  away.resize(graph.value_count(), false);
  for (const auto& [name, tier] : request.homes)
    if (const ValueId id = graph.find_value(name)) away[id] = tier != Tier::device;
  return away;
}

IdVector<ValueId, bool> away_of(const PlanRequest& request, const SpillChoice& choice) {
  IdVector<ValueId, bool> away = away_of(request, choice.away);
  for (std::int64_t v = 0; v < away.size(); ++v)
    if (choice.splits.streams(ValueId(v))) away[ValueId(v)] = false;
  return away;
}

Table<Visit> visits_of(const PlanRequest& request, const SpillChoice& choice) {
  const Graph& graph = request.graph;
  const IdVector<ValueId, bool> away = away_of(request, choice);
  Table<Visit> visits;
  if (std::ranges::find(away, true) == away.end()) return visits;
  IdVector<ValueId, std::int64_t> newest(graph.value_count(), -1);  // index into visits
  for (std::int32_t run = 0; run < choice.runs.size(); ++run) {
    if (runs_on_host(choice, run)) continue;
    const Op& op = graph.op(choice.runs[run]);
    const auto visit = [&](ValueId id) -> Visit& {
      std::int64_t& found = newest[id];
      if (found < 0 || (run - visits[found].last > choice.near && !choice.stays.contains({id, run}))) {
        const std::int64_t bytes = packed_bytes(request, id);
        const std::int32_t earliest = found < 0 ? 0 : visits[found].last + 1;
        found = visits.size();
        visits.push_back({id, bytes, run, run, earliest, {}});
      }
      visits[found].last = run;
      return visits[found];
    };
    // An update that goes tile by tile reads what is away where it lives.
    const SplitRun* split = choice.splits.at(run);
    if (split && op.phase == Phase::update) continue;
    for (ValueId input : split ? split->reads : op.inputs)
      if (away[input]) visit(input);
    for (ValueId output : op.outputs)
      if (const ValueId old = graph.value(output).version_of; old && away[old]) visit(old).next = output;
  }
  return visits;
}

}  // namespace outsize
