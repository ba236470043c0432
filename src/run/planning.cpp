#include <algorithm>
#include <optional>

#include "outsize/outsize.h"
#include "run/session.h"
#include "search/explain.h"
#include "search/row.h"

namespace outsize {

Facts describe(const Task& asked, const Observer& observer) {
  const Task task = with_accuracy(asked);
  Session session = open_session(task, observer);
  return session.facts(resolve_for_device(session, task.planning));
}

PlanReport plan(const Task& asked, const Observer& observer, const std::string& explained) {
  const Task task = with_accuracy(asked);
  if (!explained.empty() && !task.planning.dump.empty()) user_error("give --dump or --explain, not both");
  Session session = open_session(task, observer);
  const Graph& graph = session.training.graph;
  PlanReport report;
  report.dumped = dump_of_graph(session, task);
  if (!report.dumped.empty()) return report;
  const ValueId value = explained.empty() ? ValueId() : find_explained(graph, explained);

  std::optional<Prepared> keep = prepare_keep(session);
  const PrepareOptions options = resolve_for_device(session, task.planning, &keep);
  report.facts = session.facts(options);
  Planned<Prepared> prepared = prepare(graph, session.target(), session.profile, options);
  if (!prepared) {
    report.refused = advised(session, task, options, prepared.refusal());
    report.yardstick = yardstick_of(graph, session.target(), session.profile, options, *keep);
    report.row = row_of(options, prepared.refusal());
    report.coverage = coverage_of(session.profile, graph, keep->program);
    return report;
  }
  report.dumped = dump_of_plan(session, *prepared, task.planning.dump);
  if (!report.dumped.empty()) return report;
  if (value) {
    report.explanation = explain(graph, session.profile, *prepared, value);
    return report;
  }
  refine(session, *prepared);
  // After that: all of one answer goes by the same times.
  report.yardstick = yardstick_of(graph, session.target(), session.profile, options, *keep);
  report.coverage = coverage_of(session.profile, graph, prepared->program);
  report.row = row_of(graph, session.profile, options, *prepared);
  report.yardstick.hold_for(report.row);
  return report;
}

Comparison compare(const Task& asked, const std::vector<std::string>& planners, const Observer& observer) {
  const Task task = with_accuracy(asked);
  const std::vector<std::string> names = planners_or_all(planners);
  Session session = open_session(task, observer);
  const Graph& graph = session.training.graph;
  observer.show("planning with keep");
  std::optional<Prepared> keep = prepare_keep(session);
  PrepareOptions options = resolve_for_device(session, task.planning, &keep);
  Comparison comparison;
  comparison.facts = session.facts(options);
  comparison.yardstick = yardstick_of(graph, session.target(), session.profile, options, *keep);
  keep.reset();
  for (const std::string& name : names) {
    observer.show(fmt::format("planning with {} ({} of {})", name, comparison.rows.size() + 1, names.size()));
    options.planner = name;
    comparison.rows.push_back(plan_row(graph, session.target(), session.profile, options));
    comparison.yardstick.hold_for(comparison.rows.back());
  }
  observer.show("");
  if (planners.empty()) comparison.rows.insert(comparison.rows.begin(), auto_row(comparison.rows));
  std::ranges::stable_sort(comparison.rows, comes_before);
  return comparison;
}

}  // namespace outsize
