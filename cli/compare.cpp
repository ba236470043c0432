#include <algorithm>

#include "answer.h"
#include "command.h"
#include "flags.h"
#include "outsize/outsize.h"
#include "outsize/text.h"
#include "progress.h"
#include "say.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct Flags {
  CommonFlags common;
  Task task;
  std::vector<std::string> planners;
};

// "17.2 MiB", of another tier than the device "17.2 MiB of host"
std::string missing_of(const PlanRow& row) {
  const std::string bytes = format_bytes(row.refusal->missing());
  return row.refusal->tier == Tier::device ? bytes : fmt::format("{} of {}", bytes, name_of(row.refusal->tier));
}

void print_table(const Comparison& comparison) {
  const Yardstick& yardstick = comparison.yardstick;
  fmt::print("{}\n", comparison.facts.description);
  fmt::print("{} on {}; keep takes {} and {}, no plan less than {}", format_bytes(comparison.facts.budgets.device),
             comparison.facts.device, format_bytes(yardstick.keep_peak_bytes), format_seconds(yardstick.keep_seconds),
             format_seconds(std::min(yardstick.bound_seconds, yardstick.tiled_bound_seconds)));
  if (yardstick.tiled_bound_seconds < yardstick.bound_seconds)
    fmt::print(", none without tiles less than {}", format_seconds(yardstick.bound_seconds));
  fmt::print("\n\n");
  Table table({"planner", "from", "fits", "peak", "missing", "step", "of keep", "of bound", "swapped", "recomputed", "tiles",
               "planned in"});
  for (const PlanRow& row : comparison.rows) {
    const std::string planned = format_seconds(*row.plan_seconds), none = "-";
    if (row.fits())
      table.row({row.title(), row.source, "yes", format_bytes(row.peak_bytes.device), none, format_seconds(row.step_seconds),
                 fmt::format("{:.3f}", row.step_seconds / yardstick.keep_seconds),
                 fmt::format("{:.3f}", row.step_seconds / yardstick.bound_of(row.figures)), format_bytes(row.figures.swapped_bytes),
                 fmt::format("{}", row.figures.recomputed_ops), fmt::format("{}", row.figures.tiles), planned});
    else
      table.row({row.name(), row.source, "no", row.peak_bytes.device > 0 ? format_bytes(row.peak_bytes.device) : none,
                 row.refusal->of_bytes() ? missing_of(row) : none, none, none, none, none, none, none, planned});
  }
  table.print();
}

void print_rows(const Comparison& comparison) {
  nlohmann::ordered_json object{{"fits", comparison.rows.front().fits()},
                                {"model", comparison.facts.model},
                                {"backend", comparison.facts.backend},
                                {"device", comparison.facts.device},
                                {"budget_bytes", comparison.facts.budgets.device},
                                {"rows", nlohmann::ordered_json::array()}};
  for (const PlanRow& row : comparison.rows) object["rows"].push_back(to_json(comparison.facts, comparison.yardstick, row));
  print_json(object);
}

int run(Flags flags) {
  flags.task.machine = flags.common.machine;
  Progress progress(!flags.common.json);
  const Comparison comparison = compare(flags.task, planners_named(flags.planners), progress.observer());
  progress.clear();
  warn_of_own_sizes(flags.task.model, comparison.facts);
  (flags.common.json ? print_rows : print_table)(comparison);
  const PlanRow& best = comparison.rows.front();
  if (best.fits()) return kDone;
  std::optional<std::string> command;
  int tries = 3;
  for (const PlanRow& row : comparison.rows) {
    if (command || !row.refusal->of_bytes() || row.refusal->tier != Tier::device || tries == 0) continue;
    --tries;
    flags.task.planning.planner = row.name();
    command = command_with_memory(flags.task, row.refusal->needed);
  }
  say_refused((comparison.rows.size() == 1 ? "" : "no planner fits; the nearest: ") + sentence_of(*best.refusal), command);
  return kBudgetRefused;
}

}  // namespace

Run add_compare(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_model_flags(command, flags->task.model);
  add_optimizer_flags(command, flags->task.training);
  add_planners_flags(command, flags->task.planning, flags->planners);
  add_common_flags(command, flags->common);
  return [flags] { return run(*flags); };
}

}  // namespace outsize::cli
