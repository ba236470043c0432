#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "command.h"
#include "cost/devices.h"
#include "session.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct Flags {
  CommonFlags common;
  ModelFlags model;
  PlanFlags plan;
  TrainingOptions training;
};

// A plan beside the one that holds everything, or why there is none.
struct Answer {
  std::optional<Prepared> prepared;
  std::optional<Prepared> keep;
  std::string refusal;
  std::int64_t missing_bytes = 0;
  double lower_bound = 0;
};

void print_json(const Session& session, const PrepareOptions& options, const Answer& answer) {
  const Prepared& keep = *answer.keep;
  nlohmann::ordered_json object{{"fits", answer.prepared.has_value()},
                                {"model", session.model},
                                {"backend", session.backend->name()},
                                {"device", session.profile.device.name},
                                {"planner", answer.prepared ? answer.prepared->plan.planner : options.planner},
                                {"budget_bytes", options.budgets.device},
                                {"missing_bytes", answer.missing_bytes},
                                {"keep_peak_bytes", keep.program.peak_bytes[0]},
                                {"keep_step_s", keep.predicted.seconds},
                                {"lower_bound_s", answer.lower_bound}};
  if (answer.prepared) {
    const PlanFigures figures = figures_of(*answer.prepared);
    const double step = answer.prepared->predicted.seconds;
    object["peak_bytes"] = answer.prepared->program.peak_bytes[0];
    object["host_bytes"] = answer.prepared->program.peak_bytes[1];
    object["disk_bytes"] = answer.prepared->program.peak_bytes[2];
    object["step_s"] = step;
    object["ratio_to_bound"] = step / answer.lower_bound;
    object["ratio_to_keep"] = step / keep.predicted.seconds;
    object["plan_seconds"] = answer.prepared->plan_seconds;
    object["swapped_bytes"] = figures.swapped_bytes;
    object["recomputed_ops"] = figures.recomputed_ops;
    object["tiles"] = figures.tiles;
  } else {
    object["peak_bytes"] = options.budgets.device + answer.missing_bytes;
    for (const char* key :
         {"step_s", "ratio_to_bound", "ratio_to_keep", "plan_seconds", "swapped_bytes", "recomputed_ops", "tiles"})
      object[key] = nullptr;
    object["error"] = answer.refusal;
    object["status"] = kBudgetRefused;
  }
  fmt::print("{}\n", object.dump(2));
}

void print_summary(const Session& session, const PrepareOptions& options, const Answer& answer) {
  const Prepared& prepared = *answer.prepared;
  const Prepared& keep = *answer.keep;
  const PlanFigures figures = figures_of(prepared);
  const double step = prepared.predicted.seconds;
  Summary summary;
  summary.row("model", session.describe());
  summary.row("fits",
              fmt::format("yes: {} of {}", format_bytes(prepared.program.peak_bytes[0]), format_bytes(options.budgets.device)));
  summary.row("planner", prepared.plan.planner);
  summary.row("step", fmt::format("{} predicted on {}", format_seconds(step), session.profile.device.name));
  summary.row("beside keep",
              fmt::format("{:.3f} of its time, {:.3f} of its {}", step / keep.predicted.seconds,
                          static_cast<double>(prepared.program.peak_bytes[0]) / static_cast<double>(keep.program.peak_bytes[0]),
                          format_bytes(keep.program.peak_bytes[0])));
  summary.row("beside the bound", fmt::format("{:.3f} of {}", step / answer.lower_bound, format_seconds(answer.lower_bound)));
  summary.row("swapped", fmt::format("{} a step", format_bytes(figures.swapped_bytes)));
  summary.row("recomputed", fmt::format("{} ops a step", figures.recomputed_ops));
  summary.row("tiles", fmt::format("{}", figures.tiles));
  summary.row("planned in", format_seconds(prepared.plan_seconds));
  summary.print();
}

int plan(Flags flags) {
  flags.training.accuracy = true;  // as `train` has it, so that it can run the plan
  Session session = open_session(flags.common, flags.model, flags.plan, flags.training);
  if (dump_graph(session, flags.model, flags.plan)) return kDone;

  Answer answer;
  answer.keep = prepare_keep(session);
  answer.lower_bound = lower_bound_seconds(session.training.graph, session.profile);
  PrepareOptions options = resolve(session, flags.plan, &answer.keep);
  // A device that is not here has what its description says, not what is free on this machine.
  const Device& device = session.profile.device;
  if (device.name != devices().front().name) {
    if (flags.plan.memory.empty()) options.budgets.device = device.memory_bytes;
    if (flags.plan.host_memory.empty()) options.budgets.host = device.host_bytes;
  }
  try {
    answer.prepared = prepare(session.training.graph, *session.backend, session.profile, options);
  } catch (const BudgetError& error) {
    answer.refusal = error.what();
    answer.missing_bytes = error.missing_bytes();
    if (flags.common.json) print_json(session, options, answer);
    throw;
  }
  if (dump_plan(session, *answer.prepared, flags.plan)) return kDone;
  (flags.common.json ? print_json : print_summary)(session, options, answer);
  return kDone;
}

}  // namespace

Run add_plan(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_model_flags(command, flags->model);
  add_optimizer_flags(command, flags->training);
  add_plan_flags(command, flags->plan);
  add_common_flags(command, flags->common);
  return [flags] { return plan(*flags); };
}

}  // namespace outsize::cli
