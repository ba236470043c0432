#include <algorithm>

#include "advice.h"
#include "base/bytes.h"
#include "command.h"
#include "progress.h"
#include "row.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct Flags {
  CommonFlags common;
  ModelFlags model;
  PlanFlags plan;
  TrainingOptions training;
  std::vector<std::string> planners;
};

// The fastest that fits first; then those that miss the fewest bytes; last, those that have no plan for the graph.
bool before(const PlanRow& a, const PlanRow& b) {
  if (a.fits() != b.fits()) return a.fits();
  if (a.fits()) return a.step_seconds < b.step_seconds;
  const std::optional<std::int64_t> of_a = a.missing_bytes(), of_b = b.missing_bytes();
  if (of_a && of_b) return *of_a < *of_b;
  return of_a.has_value() && !of_b.has_value();
}

// "17.2 MiB", of another tier than the device "17.2 MiB of host"
std::string missing_of(const PlanRow& row) {
  const std::string bytes = format_bytes(row.refusal->missing());
  return row.refusal->tier == Tier::device ? bytes : fmt::format("{} of {}", bytes, name_of(row.refusal->tier));
}

void print_table(const Session& session, const PrepareOptions& options, const Yardstick& yardstick,
                 const std::vector<PlanRow>& rows) {
  fmt::print("{}\n", session.describe());
  fmt::print("{} on {}; keep takes {} and {}, no plan less than {}\n\n", format_bytes(options.budgets.device),
             session.profile.device.name, format_bytes(yardstick.keep_peak_bytes), format_seconds(yardstick.keep_seconds),
             format_seconds(yardstick.bounds.seconds));
  Table table(
      {"planner", "fits", "peak", "missing", "step", "of keep", "of bound", "swapped", "recomputed", "tiles", "planned in"});
  for (const PlanRow& row : rows) {
    const std::string name = with_options(row.planner, row.planner_options);
    const std::string planned = format_seconds(*row.plan_seconds), none = "-";
    if (row.fits())
      table.row({name, "yes", format_bytes(row.peak_bytes.device), none, format_seconds(row.step_seconds),
                 fmt::format("{:.3f}", row.step_seconds / yardstick.keep_seconds),
                 fmt::format("{:.3f}", row.step_seconds / bound_seconds(yardstick, row)), format_bytes(row.figures.swapped_bytes),
                 fmt::format("{}", row.figures.recomputed_ops), fmt::format("{}", row.figures.tiles), planned});
    else
      table.row({name, "no", row.peak_bytes.device > 0 ? format_bytes(row.peak_bytes.device) : none,
                 row.refusal->of_bytes() ? missing_of(row) : none, none, none, none, none, none, none, planned});
  }
  table.print();
}

void print_json(const Session& session, const PrepareOptions& options, const Yardstick& yardstick,
                const std::vector<PlanRow>& rows) {
  nlohmann::ordered_json object{{"fits", rows.front().fits()},
                                {"model", session.model},
                                {"backend", session.backend->name()},
                                {"device", session.profile.device.name},
                                {"budget_bytes", options.budgets.device},
                                {"rows", nlohmann::ordered_json::array()}};
  for (const PlanRow& row : rows) object["rows"].push_back(to_json(session, options, yardstick, row));
  fmt::print("{}\n", object.dump(2));
}

int compare(const Flags& flags) {
  const std::vector<std::string> names = planners_named(flags.planners);
  Session session = open_session(flags.common, flags.model, flags.plan, flags.training);
  warn_of_own_sizes(session, flags.model);
  Progress progress(!flags.common.json);
  progress.show("planning with keep");
  std::optional<Prepared> keep = prepare_keep(session);
  PrepareOptions options = resolve_for_device(session, flags.plan, &keep);
  const Yardstick yardstick = yardstick_of(session, options, *keep);
  keep.reset();

  std::vector<PlanRow> rows;
  for (const std::string& name : names) {
    progress.show(fmt::format("planning with {} ({} of {})", name, rows.size() + 1, names.size()));
    options.planner = name;
    rows.push_back(plan_row(session.training.graph, session, options));
  }
  progress.clear();
  std::ranges::stable_sort(rows, before);
  (flags.common.json ? print_json : print_table)(session, options, yardstick, rows);
  const PlanRow& best = rows.front();
  if (!best.fits()) {
    const std::string nearest = sentence_of(*best.refusal);
    throw BudgetError(*best.refusal, names.size() == 1 ? nearest : fmt::format("no planner fits; the nearest: {}", nearest));
  }
  return kDone;
}

}  // namespace

Run add_compare(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_model_flags(command, flags->model);
  add_optimizer_flags(command, flags->training);
  add_planners_flags(command, flags->plan, flags->planners);
  add_common_flags(command, flags->common);
  return [flags] { return compare(*flags); };
}

}  // namespace outsize::cli
