#include "advice.h"
#include "base/bytes.h"
#include "command.h"
#include "explain.h"
#include "row.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct Flags {
  CommonFlags common;
  ModelFlags model;
  PlanFlags plan;
  TrainingOptions training;
  std::string explain;
};

void print_summary(const Session& session, const PrepareOptions& options, const Yardstick& yardstick, const PlanRow& row,
                   const Coverage& coverage) {
  Summary summary;
  summary.row("model", session.describe());
  summary.row("fits", fmt::format("yes: {} of {}", format_bytes(row.peak_bytes.device), format_bytes(options.budgets.device)));
  if (row.peak_bytes.host > 0) summary.row("host memory", format_bytes(row.peak_bytes.host));
  if (row.peak_bytes.disk > 0) summary.row("disk", format_bytes(row.peak_bytes.disk));
  summary.row("planner", with_options(row.planner, row.planner_options));
  summary.row("step", fmt::format("{} predicted on {}", format_seconds(row.step_seconds), session.profile.device.name));
  summary.row("profile", describe(coverage));
  summary.row("beside keep",
              fmt::format("{:.3f} of its time, {:.3f} of its {}", row.step_seconds / yardstick.keep_seconds,
                          static_cast<double>(row.peak_bytes.device) / static_cast<double>(yardstick.keep_peak_bytes),
                          format_bytes(yardstick.keep_peak_bytes)));
  const double bound = bound_seconds(yardstick, row);
  summary.row("beside the bound", fmt::format("{:.3f} of {}", row.step_seconds / bound, format_seconds(bound)));
  summary.row("swapped", fmt::format("{} a step", format_bytes(row.figures.swapped_bytes)));
  summary.row("recomputed", fmt::format("{} ops a step", row.figures.recomputed_ops));
  summary.row("tiles", fmt::format("{}", row.figures.tiles));
  summary.row("planned in", format_seconds(*row.plan_seconds));
  summary.print();
}

int plan(const Flags& flags) {
  if (!flags.explain.empty() && !flags.plan.dump.empty()) user_error("give --dump or --explain, not both");
  Session session = open_session(flags.common, flags.model, flags.plan, flags.training);
  if (dump_graph(session, flags.model, flags.plan)) return kDone;
  warn_of_own_sizes(session, flags.model);
  const ValueId explained = flags.explain.empty() ? ValueId() : find_explained(session.training.graph, flags.explain);

  std::optional<Prepared> keep = prepare_keep(session);
  const PrepareOptions options = resolve_for_device(session, flags.plan, &keep);
  std::optional<Prepared> prepared;
  try {
    prepared = prepare_or_advise(session, options, rebuild_of(session, flags.model, flags.training));
  } catch (const BudgetError& error) {
    if (!flags.common.json) throw;
    nlohmann::ordered_json object =
        to_json(session, options, yardstick_of(session, options, *keep), row_of(options, error.refusal()));
    object.update(to_json(coverage_of(session.profile, session.training.graph, keep->program)));
    object["error"] = error.what();
    object.update(advice_json(error));
    fmt::print("{}\n", object.dump(2));
    throw;
  }
  if (dump_plan(session, *prepared, flags.plan)) return kDone;
  if (explained) {
    const Explanation explanation = explain(session, *prepared, explained);
    (flags.common.json ? print_explanation_json : print_explanation)(session, *prepared, explanation);
    return kDone;
  }
  refine(session, *prepared);
  // After that: all of one answer goes by the same times.
  const Yardstick yardstick = yardstick_of(session, options, *keep);
  const Coverage coverage = coverage_of(session.profile, session.training.graph, prepared->program);
  warn_if_disturbed(session, coverage);
  const PlanRow row = row_of(session.training.graph, options, *prepared);
  if (!flags.common.json) {
    print_summary(session, options, yardstick, row, coverage);
    return kDone;
  }
  nlohmann::ordered_json object = to_json(session, options, yardstick, row);
  object.update(to_json(coverage));
  fmt::print("{}\n", object.dump(2));
  return kDone;
}

}  // namespace

Run add_plan(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_model_flags(command, flags->model);
  add_optimizer_flags(command, flags->training);
  add_plan_flags(command, flags->plan);
  command
      .add_option("--explain", flags->explain,
                  "say what the plan does with this value, and what else could be done (--dump graph names them)")
      ->type_name("VALUE");
  add_common_flags(command, flags->common);
  return [flags] { return plan(*flags); };
}

}  // namespace outsize::cli
