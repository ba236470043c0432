#include "answer.h"
#include "command.h"
#include "explanation.h"
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
  std::string explain;
};

void print_summary(const PlanReport& report) {
  const PlanRow& row = report.row;
  const Yardstick& yardstick = report.yardstick;
  Summary summary;
  summary.row("model", report.facts.description);
  summary.row("fits", fmt::format("yes: {} of {}", format_bytes(row.peak_bytes.device), format_bytes(report.facts.budgets.device)));
  if (row.peak_bytes.host > 0) summary.row("host memory", format_bytes(row.peak_bytes.host));
  if (row.peak_bytes.disk > 0) summary.row("disk", format_bytes(row.peak_bytes.disk));
  summary.row("planner", row.title());
  summary.row("step", fmt::format("{} predicted on {}", format_seconds(row.step_seconds), report.facts.device));
  summary.row("profile", report.coverage.describe());
  summary.row("beside keep",
              fmt::format("{:.3f} of its time, {:.3f} of its {}", row.step_seconds / yardstick.keep_seconds,
                          static_cast<double>(row.peak_bytes.device) / static_cast<double>(yardstick.keep_peak_bytes),
                          format_bytes(yardstick.keep_peak_bytes)));
  const double bound = yardstick.bound_of(row.figures);
  summary.row("beside the bound", fmt::format("{:.3f} of {}", row.step_seconds / bound, format_seconds(bound)));
  summary.row("swapped", fmt::format("{} a step", format_bytes(row.figures.swapped_bytes)));
  summary.row("recomputed", fmt::format("{} ops a step", row.figures.recomputed_ops));
  summary.row("tiles", fmt::format("{}", row.figures.tiles));
  summary.row("planned in", format_seconds(*row.plan_seconds));
  summary.print();
}

int run(Flags flags) {
  const bool json = flags.common.json;
  flags.task.machine = flags.common.machine;
  if (flags.explain.empty()) expect_no_dump(json, flags.task.planning);  // both are refused as both
  Progress progress(!json);
  const PlanReport report = plan(flags.task, progress.observer(), flags.explain);
  progress.clear();
  if (!report.dumped.empty()) {
    fmt::print("{}", report.dumped);
    return kDone;
  }
  warn_of_own_sizes(flags.task.model, report.facts);
  if (report.explanation) {
    (json ? print_explanation_json : print_explanation)(*report.explanation);
    return kDone;
  }
  if (!json && report.fits()) {
    warn_if_disturbed(report.coverage);
    print_summary(report);
  }
  if (json) {
    nlohmann::ordered_json object = to_json(report.facts, report.yardstick, report.row);
    object.update(to_json(report.coverage));
    if (report.refused) {
      object["error"] = report.refused->message;
      object.update(to_json(report.refused->advice));
    }
    print_json(object);
  }
  if (report.fits()) return kDone;
  say_refused(report.refused->message, fitting_command(report.refused->advice));
  return kBudgetRefused;
}

}  // namespace

Run add_plan(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_model_flags(command, flags->task.model);
  add_optimizer_flags(command, flags->task.training);
  add_plan_flags(command, flags->task.planning);
  command
      .add_option("--explain", flags->explain,
                  "say what the plan does with this value, and what else could be done (--dump graph names them)")
      ->type_name("VALUE");
  add_common_flags(command, flags->common);
  return [flags] { return run(*flags); };
}

}  // namespace outsize::cli
