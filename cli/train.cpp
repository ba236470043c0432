#include <algorithm>
#include <numeric>

#include "answer.h"
#include "command.h"
#include "flags.h"
#include "outsize/outsize.h"
#include "outsize/text.h"
#include "progress.h"
#include "say.h"
#include "signals.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct Flags {
  CommonFlags common;
  TrainingRequest request;
  std::int64_t print_every = 0;
};

// Lines that a run prints into a pipe, unless it is told how often.
constexpr std::int64_t kLines = 20;

// Shows the steps of a run: on a terminal in one line that changes, in a pipe in some lines.
class Steps {
 public:
  Steps(Progress& progress, bool lines, std::int64_t every) : progress_(progress), lines_(lines), every_(every) {}

  void show(const StepReport& step) {
    since_line_.add(step.score);
    const std::int64_t every = every_ > 0 ? every_ : std::max<std::int64_t>(1, (step.steps - step.first) / kLines);
    const bool line = !progress_.active() && lines_ && (step.step % every == 0 || step.step == step.steps);
    if (!progress_.active() && !line) return;
    const Score& shown = line ? since_line_ : step.recent;
    std::string text = fmt::format("step {:>{}}/{}  loss {:.4f}", step.step, fmt::formatted_size("{}", step.steps), step.steps,
                                   line ? shown.loss : step.loss);
    if (shown.rows > 0) text += fmt::format(" ({:.1f} %)", 100 * shown.accuracy());
    if (step.evaluation) text += fmt::format("  eval {:.4f}", step.evaluation->loss);
    if (step.evaluation && step.evaluation->rows > 0) text += fmt::format(" ({:.1f} %)", 100 * step.evaluation->accuracy());
    text += fmt::format("  {}/step  {}  peak {}", format_seconds(step.seconds), format_rate(step.samples_a_second),
                        format_bytes(step.peak_bytes));
    if (step.step < step.steps)
      text += fmt::format("  {} left", format_seconds(step.seconds * static_cast<double>(step.steps - step.step)));
    if (!line) return progress_.show(text);
    write_to_stderr(text + "\n");
    since_line_ = {};
  }

 private:
  Progress& progress_;
  bool lines_;
  std::int64_t every_;
  Score since_line_;  // of the steps since a line was printed
};

double computed_seconds(const TrainingReport& report) {
  return std::accumulate(report.step_seconds.begin(), report.step_seconds.end(), 0.0);
}

void print_summary(const TrainingReport& report) {
  const Facts& facts = report.facts;
  Summary summary;
  summary.row("model", facts.description);
  if (facts.device_is_host)
    summary.row("backend", fmt::format("{}, {} thread{}", facts.backend, facts.threads, facts.threads == 1 ? "" : "s"));
  else
    summary.row("backend", fmt::format("{}: {}, {}", facts.backend, facts.device, facts.precision));
  summary.row("planner", report.row.title());
  summary.row("results", fmt::format("those of holding everything, {}", report.rounding ? "to rounding" : "bit by bit"));
  summary.row("data", report.data);
  summary.row("budget", format_bytes(facts.budgets.device));
  const bool ran = !report.losses.empty();
  const auto peak_row = [&](const char* name, Tier tier) {
    summary.row(name, fmt::format("{} measured, {} predicted", format_bytes(report.measured_peaks[tier]),
                                  format_bytes(report.predicted_peaks[tier])));
  };
  if (ran) peak_row("peak", Tier::device);
  if (ran && report.predicted_peaks.host > 0) peak_row("host memory", Tier::host);
  if (report.predicted_peaks.host > 0 && facts.device_is_host)
    summary.row("", "which on a cpu is the same memory as the device's: --host-memory is there to try plans for a card");
  if (ran && report.predicted_peaks.disk > 0) peak_row("disk", Tier::disk);
  if (ran)
    summary.row("process", fmt::format("{} at its peak, {} of them outside the plan", format_bytes(report.process_peak_bytes),
                                       format_bytes(report.outside_bytes)));
  if (report.device_outside_bytes > 0)
    summary.row("card", fmt::format("{} of its memory are outside the plan", format_bytes(report.device_outside_bytes)));
  if (ran)
    summary.row("step", fmt::format("{} measured, {} predicted", format_seconds(report.measured_step_s),
                                    format_seconds(report.row.step_seconds)));
  summary.row("profile", report.coverage.describe());
  const double computed = computed_seconds(report);
  if (ran) summary.row("throughput", format_rate(static_cast<double>(report.samples) / std::max(computed, 1e-9)));
  summary.row("swapped", fmt::format("{} a step", format_bytes(report.row.figures.swapped_bytes)));
  summary.row("recomputed", fmt::format("{} ops a step", report.row.figures.recomputed_ops));
  summary.row("tiles", fmt::format("{}", report.row.figures.tiles));
  if (ran)
    summary.row("loss", fmt::format("{:.6g} → {:.6g} in {} step{}", report.losses.front(), report.losses.back(),
                                    report.losses.size(), report.losses.size() == 1 ? "" : "s"));
  if (report.evaluation) {
    std::string text = fmt::format("loss {:.6g}", report.evaluation->loss);
    if (report.evaluation->rows > 0) text += fmt::format(", accuracy {:.1f} %", 100 * report.evaluation->accuracy());
    if (report.evaluation->correct5 > 0) text += fmt::format(", top five {:.1f} %", 100 * report.evaluation->accuracy5());
    summary.row("evaluation", text + fmt::format(" of {} samples", report.evaluation->samples));
  }
  if (!report.stopped_by.empty()) summary.row("stopped", fmt::format("by {} after step {}", report.stopped_by, report.steps_made));
  const double total = computed + report.waited_seconds;
  summary.row("waited", fmt::format("{:.1f} % of the time for data", 100 * report.waited_seconds / std::max(total, 1e-9)));
  if (report.skipped > 0) summary.row("skipped", fmt::format("{} samples that could not be read", report.skipped));
  summary.row("parameters", fmt::format("sha256 {}", report.parameters_sha256));
  summary.print();
  warn_if_disturbed(report.coverage);
}

void print_object(const TrainingReport& report) {
  const Facts& facts = report.facts;
  const PlanFigures& figures = report.row.figures;
  nlohmann::ordered_json object{
      {"model", facts.model},
      {"backend", facts.backend},
      {"threads", facts.threads},
      {"planner", report.row.planner},
      {"made_by", made_by_of(report.row)},
      {"planner_options", to_json(report.row.options)},
      {"rounding", report.rounding},
      {"data", report.data},
      {"batch", facts.batch},
      {"accumulate", report.accumulate},
      {"parameters", facts.parameters},
      {"budget_bytes", facts.budgets.device},
      {"predicted_peak_bytes", report.predicted_peaks.device},
      {"measured_peak_bytes", report.measured_peaks.device},
      {"host_bytes", report.predicted_peaks.host},
      {"measured_host_bytes", report.measured_peaks.host},
      {"disk_bytes", report.predicted_peaks.disk},
      {"measured_disk_bytes", report.measured_peaks.disk},
      {"peak_resident_bytes", report.process_peak_bytes},
      {"process_peak_bytes", report.process_peak_bytes},
      {"outside_bytes", report.outside_bytes},
      {"device_outside_bytes", report.device_outside_bytes},
      {"plan_seconds", report.row.plan_seconds.value_or(0)},
      {"predicted_step_s", report.row.step_seconds},
      {"measured_step_s", report.measured_step_s},
      {"step_seconds", report.step_seconds},
      {"steps", report.losses.size()},
      {"losses", report.losses},
      {"swapped_bytes", figures.swapped_bytes},
      {"recomputed_ops", figures.recomputed_ops},
      {"tiles", figures.tiles},
      {"params_sha256", report.parameters_sha256},
      {"states_sha256", report.states_sha256},
      {"steps_made", report.steps_made},
      {"samples", report.samples},
      {"waited_s", report.waited_seconds},
      {"skipped_samples", report.skipped},
  };
  object.update(to_json(report.coverage));
  if (!report.stopped_by.empty()) object["stopped_by"] = report.stopped_by;
  if (!report.log_failure.empty()) object["log_failure"] = report.log_failure;
  if (report.evaluation) {
    object["eval_loss"] = report.evaluation->loss;
    object["eval_samples"] = report.evaluation->samples;
    if (report.evaluation->rows > 0) object["eval_accuracy"] = report.evaluation->accuracy();
    if (report.evaluation->rows > 0) object["eval_accuracy5"] = report.evaluation->accuracy5();
  }
  print_json(object);
}

void print_refusal(const TrainingReport& report) {
  nlohmann::ordered_json object{{"fits", false},
                                {"model", report.facts.model},
                                {"backend", report.facts.backend},
                                {"planner", report.row.planner},
                                {"planner_options", to_json(report.row.options)},
                                {"budget_bytes", report.facts.budgets.device},
                                {"missing_bytes", nullptr},
                                {"missing_tier", nullptr},
                                {"error", report.refused->message},
                                {"status", kBudgetRefused}};
  if (const Refusal& refusal = report.refused->refusal; refusal.of_bytes()) {
    object["missing_bytes"] = refusal.missing();
    object["missing_tier"] = name_of(refusal.tier);
  }
  object.update(to_json(report.refused->advice));
  print_json(object);
}

int run(Flags flags) {
  const bool json = flags.common.json;
  flags.request.task.machine = flags.common.machine;
  expect_no_dump(json, flags.request.task.planning);
  Progress progress(!json);
  const StopOnSignal signals;
  Steps steps(progress, !json, flags.print_every);
  Observer observer = progress.observer();
  observer.step = [&](const StepReport& step) { steps.show(step); };
  observer.stop = [] { return StopOnSignal::caught(); };
  const TrainingReport report = train(flags.request, observer);
  progress.clear();
  if (!report.dumped.empty()) {
    fmt::print("{}", report.dumped);
    return kDone;
  }
  if (report.refused) {
    // Under --json a refused budget is an answer too.
    if (json) print_refusal(report);
    say_refused(report.refused->message, fitting_command(report.refused->advice));
    return kBudgetRefused;
  }
  (json ? print_object : print_summary)(report);
  if (StopOnSignal::number() != 0 && !report.stopped_by.empty()) return kSignalled + StopOnSignal::number();
  return report.log_failure.empty() ? kDone : kBadInput;
}

}  // namespace

Run add_train(CLI::App& command) {
  auto flags = std::make_shared<Flags>();
  add_model_flags(command, flags->request.task.model);
  add_integer(command, "--steps", flags->request.steps, 1, fmt::format("training steps [{}]", kDefaultSteps));
  add_integer(command, "--epochs", flags->request.epochs, 1, "passes over --data, instead of --steps");
  add_integer(command, "--accumulate", flags->request.accumulate, 1,
              "batches a step: their gradients are summed before the update [1]");
  add_number(command, "--lr", flags->request.learning_rate.base, 0, "learning rate [0.01]");
  add_word(command, "--schedule", flags->request.schedule, {"constant", "step", "cosine"}, "how it goes on [constant]");
  add_integer(command, "--warm-up", flags->request.learning_rate.warm_up, 0, "steps in which it rises to --lr [0]");
  add_integer(command, "--schedule-every", flags->request.learning_rate.every, 1, "schedule step: after so many steps …");
  add_number(command, "--schedule-factor", flags->request.learning_rate.factor, 0, "… it is multiplied by this [0.1]");
  add_optimizer_flags(command, flags->request.task.training);
  command.add_option("--data", flags->request.data, std::string(kDataForms) + " [synthetic]")->type_name("DATA");
  add_word(command, "--shuffle", flags->request.shuffle, {"on", "off"}, "another order of --data each epoch [on]");
  add_word(command, "--fit", flags->request.fit, {"resize", "crop"}, "how images become --image large [resize]");
  command.add_option("--augment", flags->request.augment, "flip, crop: draw another view of each sample each epoch")
      ->delimiter(',')
      ->type_name("KINDS");
  command.add_flag("--strict", flags->request.strict,
                   "end at the first sample that cannot be read, instead of taking the next (in evaluation: leaving it out)");
  add_integer(command, "--load-threads", flags->request.load_threads, 0, "threads that make batches ahead [2]");
  command.add_option("--eval-data", flags->request.eval_data, "evaluate on this [the test part of --data]")->type_name("DATA");
  add_integer(command, "--eval-every", flags->request.eval_every, 1, "evaluate after so many steps [at the end]");
  add_integer(command, "--patience", flags->request.patience, 1,
              "stop after so many evaluations without a lower loss; the best weights are then in --checkpoint's best.safetensors");
  add_integer(command, "--print-every", flags->print_every, 1, "steps between lines where there is no terminal [a twentieth]");
  command.add_option("--checkpoint", flags->request.checkpoint, "write checkpoints there, one at the end or when stopped")
      ->type_name("DIR");
  add_integer(command, "--checkpoint-every", flags->request.checkpoint_every, 1, "… and one after so many steps");
  command.add_flag("--resume", flags->request.resume, "go on from the newest checkpoint as if never stopped");
  command
      .add_option("--log", flags->request.log,
                  "append a JSON line for each step and evaluation; where that fails, the run goes on and ends with status 2")
      ->type_name("FILE");
  command.add_option("--weights", flags->request.weights, "start from these parameters and states")->type_name("FILE.safetensors");
  command.add_flag("--partial", flags->request.partial,
                   "take those of --weights that fit the model; the others stay as initialised");
  command
      .add_option("--save", flags->request.save,
                  "write parameters and states at the end; takes the place of no file but a safetensors file")
      ->type_name("FILE.safetensors");
  command.add_option("--save-gradients", flags->request.save_gradients, "write the last step's gradients and all losses")
      ->type_name("FILE.safetensors");
  command
      .add_option("--trace", flags->request.trace,
                  "write when each instruction of the last step ran, for chrome://tracing or Perfetto")
      ->type_name("FILE.json");
  command.add_flag("--check-spill", flags->request.check_spill,
                   "compare what comes back from host memory and disk with what went there (debug builds always do)");
  add_plan_flags(command, flags->request.task.planning);
  add_common_flags(command, flags->common);
  return [flags] { return run(*flags); };
}

}  // namespace outsize::cli
