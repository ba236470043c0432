#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "command.h"
#include "progress.h"
#include "session.h"
#include "table.h"

namespace outsize::cli {
namespace {

struct TrainFlags {
  CommonFlags common;
  ModelFlags model;
  PlanFlags plan;
  TrainingOptions training;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  double learning_rate = 0.01;
  std::string data;
  std::string shuffle = "on";
  std::string weights;
  std::string save;
  std::string save_gradients;
};

constexpr std::int64_t kDefaultSteps = 10;

struct Losses {
  std::vector<double> values;
  std::vector<double> seconds;  // of each step

  // The first step also warms caches, so it counts only where there is hardly another.
  double median_seconds() const {
    std::vector<double> sorted(seconds.begin() + (seconds.size() > 2 ? 1 : 0), seconds.end());
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
};

std::int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * std::int64_t{1024};
}

std::int64_t count_steps(const TrainFlags& flags, const DataSource& source) {
  if (flags.steps > 0 && flags.epochs > 0) user_error("give --steps or --epochs, not both");
  if (flags.epochs == 0) return flags.steps > 0 ? flags.steps : kDefaultSteps;
  if (source.batches_per_epoch() == 0) user_error("--epochs: synthetic data has no end; give --steps, or --data");
  return flags.epochs * source.batches_per_epoch();
}

void load_weights(Trainer& trainer, const std::string& path) {
  std::vector<std::string> ignored = trainer.load(SafetensorsFile(path));
  std::erase_if(ignored, [](const std::string& name) { return name.ends_with(".num_batches_tracked"); });
  if (ignored.empty()) return;
  const std::size_t shown = std::min<std::size_t>(ignored.size(), 3);
  fmt::print(stderr, "outsize: {}: {} tensors that the model has not were ignored: {}{}\n", path, ignored.size(),
             fmt::join(ignored.begin(), ignored.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
             ignored.size() > shown ? ", …" : "");
}

Losses run_steps(Trainer& trainer, const DataSource& source, std::int64_t steps, const TrainFlags& flags) {
  Progress progress(!flags.common.json);
  Losses losses;
  Batch batch;
  for (std::int64_t i = 0; i < steps; ++i) {
    source.fill(i, batch);
    losses.values.push_back(trainer.step(batch, flags.learning_rate));
    losses.seconds.push_back(trainer.step_seconds());
    const double left = losses.median_seconds() * static_cast<double>(steps - i - 1);
    progress.show(fmt::format("step {}/{}  loss {:.4f}  {}/step  {} left", i + 1, steps, losses.values.back(),
                              format_seconds(losses.median_seconds()), format_seconds(left)));
  }
  return losses;
}

void print_summary(const Session& session, const Trainer& trainer, const DataSource& source, const Losses& losses,
                   const PrepareOptions& options) {
  const Prepared& prepared = trainer.prepared();
  const PlanFigures figures = figures_of(prepared);
  Summary summary;
  summary.row("model", session.describe());
  summary.row("backend", fmt::format("{}, {} thread{}", session.backend->name(), session.threads, session.threads == 1 ? "" : "s"));
  summary.row("planner", prepared.plan.planner);
  summary.row("data", source.name());
  summary.row("budget", format_bytes(options.budgets.device));
  summary.row("peak", fmt::format("{} measured, {} predicted", format_bytes(trainer.measured_peak_bytes()),
                                  format_bytes(prepared.program.peak_bytes[0])));
  summary.row("step", fmt::format("{} measured, {} predicted", format_seconds(losses.median_seconds()),
                                  format_seconds(prepared.predicted.seconds)));
  summary.row("throughput", fmt::format("{:.3g} samples/s", static_cast<double>(session.batch) / losses.median_seconds()));
  summary.row("swapped", fmt::format("{} a step", format_bytes(figures.swapped_bytes)));
  summary.row("recomputed", fmt::format("{} ops a step", figures.recomputed_ops));
  summary.row("tiles", fmt::format("{}", figures.tiles));
  summary.row("loss", fmt::format("{:.6g} → {:.6g} in {} step{}", losses.values.front(), losses.values.back(), losses.values.size(),
                                  losses.values.size() == 1 ? "" : "s"));
  summary.row("parameters", fmt::format("sha256 {}", trainer.parameters_sha256()));
  summary.print();
}

void print_json(const Session& session, const Trainer& trainer, const DataSource& source, const Losses& losses,
                const PrepareOptions& options) {
  const Prepared& prepared = trainer.prepared();
  const PlanFigures figures = figures_of(prepared);
  const nlohmann::ordered_json object{
      {"model", session.model},
      {"backend", session.backend->name()},
      {"threads", session.threads},
      {"planner", prepared.plan.planner},
      {"rounding", prepared.plan.rounding()},
      {"data", source.name()},
      {"batch", session.batch},
      {"parameters", session.parameters},
      {"budget_bytes", options.budgets.device},
      {"predicted_peak_bytes", prepared.program.peak_bytes[0]},
      {"measured_peak_bytes", trainer.measured_peak_bytes()},
      {"host_bytes", prepared.program.peak_bytes[1]},
      {"disk_bytes", prepared.program.peak_bytes[2]},
      {"peak_resident_bytes", peak_resident_bytes()},
      {"plan_seconds", prepared.plan_seconds},
      {"predicted_step_s", prepared.predicted.seconds},
      {"measured_step_s", losses.median_seconds()},
      {"step_seconds", losses.seconds},
      {"steps", losses.values.size()},
      {"losses", losses.values},
      {"swapped_bytes", figures.swapped_bytes},
      {"recomputed_ops", figures.recomputed_ops},
      {"tiles", figures.tiles},
      {"params_sha256", trainer.parameters_sha256()},
      {"states_sha256", trainer.states_sha256()},
  };
  fmt::print("{}\n", object.dump(2));
}

// Under --json a refused budget is an answer too.
Prepared prepare_or_refuse(Session& session, const PrepareOptions& options, bool json) {
  try {
    return prepare(session.training.graph, *session.backend, session.profile, options);
  } catch (const BudgetError& error) {
    const nlohmann::ordered_json object{{"fits", false},
                                        {"model", session.model},
                                        {"backend", session.backend->name()},
                                        {"planner", options.planner},
                                        {"budget_bytes", options.budgets.device},
                                        {"missing_bytes", error.missing_bytes()},
                                        {"message", error.what()}};
    if (json) fmt::print("{}\n", object.dump(2));
    throw;
  }
}

// A run of hours should not end with a file that cannot be written.
void check_writable(const std::string& path) {
  if (!path.empty()) OutputFile{path};
}

int train(TrainFlags flags) {
  check_writable(flags.save);
  check_writable(flags.save_gradients);
  flags.training.gradients = !flags.save_gradients.empty();
  Session session = open_session(flags.common, flags.model, flags.plan, flags.training);
  if (dump_graph(session, flags.model, flags.plan)) return kDone;

  const BatchSpec spec = session.training.batch_spec();
  const std::unique_ptr<DataSource> source = flags.data.empty()
                                                 ? make_synthetic_source(spec, flags.common.seed)
                                                 : make_npz_source(flags.data, spec, flags.shuffle == "on", flags.common.seed);
  const std::int64_t steps = count_steps(flags, *source);

  const PrepareOptions options = resolve(session, flags.plan);
  Prepared prepared = prepare_or_refuse(session, options, flags.common.json);
  if (dump_plan(session, prepared, flags.plan)) return kDone;

  Trainer trainer(session.training, std::move(prepared), *session.backend, flags.common.seed, flags.plan.spill);
  if (!flags.weights.empty()) load_weights(trainer, flags.weights);
  const Losses losses = run_steps(trainer, *source, steps, flags);
  if (!flags.save.empty()) trainer.save(flags.save);
  if (!flags.save_gradients.empty()) trainer.save_gradients(flags.save_gradients, losses.values);
  (flags.common.json ? print_json : print_summary)(session, trainer, *source, losses, options);
  return kDone;
}

}  // namespace

Run add_train(CLI::App& command) {
  auto flags = std::make_shared<TrainFlags>();
  add_model_flags(command, flags->model);
  add_integer(command, "--steps", flags->steps, 1, fmt::format("training steps [{}]", kDefaultSteps));
  add_integer(command, "--epochs", flags->epochs, 1, "passes over --data, instead of --steps");
  add_number(command, "--lr", flags->learning_rate, 0, "learning rate [0.01]");
  add_optimizer_flags(command, flags->training);
  command.add_option("--data", flags->data, "arrays x and y, samples first [a synthetic task]")->type_name("FILE.npz");
  add_word(command, "--shuffle", flags->shuffle, {"on", "off"}, "another order of --data each epoch [on]");
  command.add_option("--weights", flags->weights, "start from these parameters and states")->type_name("FILE.safetensors");
  command.add_option("--save", flags->save, "write parameters and states at the end")->type_name("FILE.safetensors");
  command.add_option("--save-gradients", flags->save_gradients, "write the last step's gradients and all losses")
      ->type_name("FILE.safetensors");
  add_plan_flags(command, flags->plan);
  add_common_flags(command, flags->common);
  return [flags] { return train(*flags); };
}

}  // namespace outsize::cli
