#include "row.h"

#include <algorithm>
#include <chrono>

#include "base/say.h"
#include "command.h"
#include "cost/devices.h"
#include "program/simulator.h"

namespace outsize::cli {

Yardstick yardstick_of(const Session& session, const PrepareOptions& options, const Prepared& keep) {
  return {.keep_peak_bytes = keep.program.peak_bytes.device,
          .keep_seconds = simulate(session.training.graph, keep.program, session.profile).seconds,
          .bounds = lower_bounds(session.training.graph, *session.backend, session.profile, options)};
}

double bound_seconds(const Yardstick& yardstick, const PlanRow& row) {
  return row.figures.tiles > 0 ? yardstick.bounds.tiled_seconds : yardstick.bounds.seconds;
}

PlanRow row_of(const Graph& graph, const PrepareOptions& options, const Prepared& prepared) {
  PlanRow row;
  row.planner = prepared.plan.planner;
  row.planner_options = given_options(options);
  row.peak_bytes = prepared.program.peak_bytes;
  row.step_seconds = prepared.predicted.seconds;
  row.plan_seconds = prepared.plan_seconds;
  row.figures = figures_of(graph, prepared);
  return row;
}

PlanRow row_of(const PrepareOptions& options, const Refusal& refusal) {
  PlanRow row;
  row.planner = choose_planner(options.planner).planner.name;
  row.planner_options = given_options(options);
  if (refusal.of_bytes() && refusal.tier == Tier::device) row.peak_bytes.device = refusal.needed;
  row.refusal = refusal;
  return row;
}

std::optional<std::int64_t> PlanRow::missing_bytes() const {
  if (!refusal) return 0;
  if (!refusal->of_bytes()) return std::nullopt;
  return refusal->missing();
}

PlanRow plan_row(const Graph& graph, Session& session, const PrepareOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const Planned<Prepared> prepared = prepare(graph, *session.backend, session.profile, options);
  PlanRow row = prepared ? row_of(graph, options, *prepared) : row_of(options, prepared.refusal());
  const PlannerChoice choice = choose_planner(options.planner);
  row.planner = choice.planner.name;  // one that returns another's plan is still itself
  row.planner_options = choice.options;
  row.plan_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return row;
}

nlohmann::ordered_json to_json(const Session& session, const PrepareOptions& options, const Yardstick& yardstick,
                               const PlanRow& row) {
  nlohmann::ordered_json object{{"fits", row.fits()},
                                {"model", session.model},
                                {"backend", session.backend->name()},
                                {"device", session.profile.device.name},
                                {"planner", row.planner},
                                {"planner_options", to_json(row.planner_options)},
                                {"budget_bytes", options.budgets.device},
                                {"missing_bytes", nullptr},
                                {"keep_peak_bytes", yardstick.keep_peak_bytes},
                                {"keep_step_s", yardstick.keep_seconds},
                                {"lower_bound_s", bound_seconds(yardstick, row)},
                                {"peak_bytes", nullptr},
                                {"plan_seconds", nullptr}};
  if (row.plan_seconds) object["plan_seconds"] = *row.plan_seconds;
  const std::optional<std::int64_t> missing = row.missing_bytes();
  if (missing) object["missing_bytes"] = *missing;
  if (missing && row.peak_bytes.device > 0) object["peak_bytes"] = row.peak_bytes.device;
  if (row.fits()) {
    object["host_bytes"] = row.peak_bytes.host;
    object["disk_bytes"] = row.peak_bytes.disk;
    object["step_s"] = row.step_seconds;
    object["ratio_to_bound"] = row.step_seconds / bound_seconds(yardstick, row);
    object["ratio_to_keep"] = row.step_seconds / yardstick.keep_seconds;
    object["swapped_bytes"] = row.figures.swapped_bytes;
    object["recomputed_ops"] = row.figures.recomputed_ops;
    object["tiles"] = row.figures.tiles;
  } else {
    for (const char* key : {"step_s", "ratio_to_bound", "ratio_to_keep", "swapped_bytes", "recomputed_ops", "tiles"})
      object[key] = nullptr;
    if (missing) object["missing_tier"] = name_of(row.refusal->tier);
    object["error"] = message_of(*row.refusal);
    object["status"] = kBudgetRefused;
  }
  return object;
}

PrepareOptions resolve_for_device(Session& session, const PlanFlags& flags, std::optional<Prepared>* keep) {
  PrepareOptions options = resolve(session, flags, keep);
  const Device& device = session.profile.device;
  if (device.name == devices().front().name) return options;
  if (flags.memory.empty()) options.budgets.device = device.memory_bytes;
  if (flags.host_memory.empty()) options.budgets.host = device.host_bytes;
  return options;
}

void warn_of_own_sizes(const Session& session, const ModelFlags& model) {
  if (!model.own_sizes) return;
  say("--image own: only `train` sees the samples; this is planned for {}, the model's own size. --image HxW plans for another",
      to_string(session.training.graph.value(session.training.x).type.shape));
}

std::vector<std::string> planners_named(const std::vector<std::string>& parts) {
  // A comma also stands between options: what has an = but no colon before it is one of the planner before.
  std::vector<std::string> texts;
  for (const std::string& part : parts) {
    const bool option = part.find('=') < part.find(':');
    if (option && !texts.empty())
      texts.back() += (texts.back().find(':') == std::string::npos ? ":" : ",") + part;
    else
      texts.push_back(part);
  }
  std::vector<std::string> found;
  for (const std::string& text : texts) {
    const PlannerChoice choice = choose_planner(text);
    const std::string name = with_options(choice.planner.name, choice.options);
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  if (found.empty())
    for (const Planner& planner : planners()) found.emplace_back(planner.name);
  return found;
}

void add_planners_flags(CLI::App& command, PlanFlags& flags, std::vector<std::string>& planners) {
  // One word, so that it does not take MODEL too.
  command.add_option("--planners", planners, "only these, with their options (`outsize planners`) [all]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[:OPTION=VALUE,…],…");
  add_plan_flags(command, flags);
  // They are about one plan.
  for (const char* flag : {"--planner", "--no-split", "--plan", "--advice", "--dump"})
    command.remove_option(command.get_option(flag));
}

}  // namespace outsize::cli
