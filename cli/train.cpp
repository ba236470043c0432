#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "advice.h"
#include "backend/host_memory.h"
#include "base/bytes.h"
#include "base/positions.h"
#include "base/say.h"
#include "command.h"
#include "data/datasets.h"
#include "table.h"
#include "training_run.h"

namespace outsize::cli {
namespace {

constexpr std::int64_t kDefaultSteps = 10;

// What the process has had at a time beside the memory of the run.
std::int64_t outside_bytes(const Trainer& trainer) {
  return std::max<std::int64_t>(0, process_peak_bytes() - trainer.memory_bytes());
}

std::int64_t count_steps(const TrainFlags& flags, const Loader& loader) {
  if (flags.steps > 0 && flags.epochs > 0) user_error("give --steps or --epochs, not both");
  if (flags.epochs == 0) return flags.steps > 0 ? flags.steps : kDefaultSteps;
  if (loader.batches_per_epoch() == 0) user_error("--epochs: {} data has no end; give --steps", loader.dataset().name());
  return flags.epochs * steps_per_epoch(loader, flags.accumulate);
}

void load_weights(Trainer& trainer, const std::string& path, bool partial) {
  LoadReport report = trainer.load(SafetensorsFile(path), partial);
  const auto tell = [&](std::vector<std::string>& names, std::string_view what) {
    if (names.empty()) return;
    const std::size_t shown = std::min<std::size_t>(names.size(), 3);
    say("{}: {} tensor{} {}: {}{}", path, names.size(), names.size() == 1 ? "" : "s", what,
        fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "), names.size() > shown ? ", …" : "");
  };
  // PyTorch's counter of batches is not part of a network's weights.
  std::erase_if(report.unexpected, [](const std::string& name) { return name.ends_with(".num_batches_tracked"); });
  tell(report.unexpected, "that the model has not, ignored");
  tell(report.missing, "of the model missing, left as initialised");
  tell(report.misshaped, "of another shape, left as initialised");
}

void print_summary(const Session& session, const Trainer& trainer, const Loader& loader, const TrainingRun& run,
                   const PrepareOptions& options) {
  const Losses& losses = run.losses;
  const Prepared& prepared = trainer.prepared();
  const PlanFigures figures = figures_of(trainer.main().graph, prepared);
  Summary summary;
  summary.row("model", session.describe());
  summary.row("backend", fmt::format("{}, {} thread{}", session.backend->name(), session.threads, session.threads == 1 ? "" : "s"));
  summary.row("planner", with_options(prepared.plan.planner, given_options(options)));
  summary.row("data", loader.dataset().name());
  summary.row("budget", format_bytes(options.budgets.device));
  const bool ran = !losses.values.empty();
  const auto peak_row = [&](const char* name, Tier tier) {
    summary.row(name, fmt::format("{} measured, {} predicted", format_bytes(trainer.measured_peak_bytes(tier)),
                                  format_bytes(trainer.predicted_peak_bytes(tier))));
  };
  if (ran) peak_row("peak", Tier::device);
  const bool one_memory = session.profile.device.is_host();
  if (ran && trainer.predicted_peak_bytes(Tier::host) > 0) peak_row("host memory", Tier::host);
  if (trainer.predicted_peak_bytes(Tier::host) > 0 && one_memory)
    summary.row("", "which on a cpu is the same memory as the device's: --host-memory is there to try plans for a card");
  if (ran && trainer.predicted_peak_bytes(Tier::disk) > 0) peak_row("disk", Tier::disk);
  if (ran)
    summary.row("process", fmt::format("{} at its peak, {} of them outside the plan", format_bytes(process_peak_bytes()),
                                       format_bytes(outside_bytes(trainer))));
  if (ran)
    summary.row("step", fmt::format("{} measured, {} predicted", format_seconds(losses.median_seconds()),
                                    format_seconds(prepared.predicted.seconds)));
  const Coverage coverage = coverage_of(session.profile, trainer.main().graph, prepared.program);
  summary.row("profile", describe(coverage));
  const double computed = std::accumulate(losses.seconds.begin(), losses.seconds.end(), 0.0);
  if (ran) summary.row("throughput", format_rate(static_cast<double>(losses.samples) / std::max(computed, 1e-9)));
  summary.row("swapped", fmt::format("{} a step", format_bytes(figures.swapped_bytes)));
  summary.row("recomputed", fmt::format("{} ops a step", figures.recomputed_ops));
  summary.row("tiles", fmt::format("{}", figures.tiles));
  if (ran)
    summary.row("loss", fmt::format("{:.6g} → {:.6g} in {} step{}", losses.values.front(), losses.values.back(),
                                    losses.values.size(), losses.values.size() == 1 ? "" : "s"));
  if (run.evaluation) {
    std::string text = fmt::format("loss {:.6g}", run.evaluation->loss);
    if (run.evaluation->rows > 0) text += fmt::format(", accuracy {:.1f} %", 100 * run.evaluation->accuracy());
    if (run.evaluation->correct5 > 0) text += fmt::format(", top five {:.1f} %", 100 * run.evaluation->accuracy5());
    summary.row("evaluation", text + fmt::format(" of {} samples", run.evaluation->samples));
  }
  if (!run.stopped_by.empty()) summary.row("stopped", fmt::format("by {} after step {}", run.stopped_by, run.steps_made()));
  const double total = computed + loader.waited_seconds();
  summary.row("waited", fmt::format("{:.1f} % of the time for data", 100 * loader.waited_seconds() / std::max(total, 1e-9)));
  if (run.skipped() > 0) summary.row("skipped", fmt::format("{} samples that could not be read", run.skipped()));
  summary.row("parameters", fmt::format("sha256 {}", trainer.parameters_sha256()));
  summary.print();
  warn_if_disturbed(session, coverage);
}

void print_json(const Session& session, const Trainer& trainer, const Loader& loader, const TrainingRun& run,
                const PrepareOptions& options, std::int64_t accumulate) {
  const Losses& losses = run.losses;
  const Prepared& prepared = trainer.prepared();
  const PlanFigures figures = figures_of(trainer.main().graph, prepared);
  nlohmann::ordered_json object{
      {"model", session.model},
      {"backend", session.backend->name()},
      {"threads", session.threads},
      {"planner", prepared.plan.planner},
      {"planner_options", to_json(given_options(options))},
      {"rounding", prepared.plan.rounding()},
      {"data", loader.dataset().name()},
      {"batch", session.batch},
      {"accumulate", accumulate},
      {"parameters", session.parameters},
      {"budget_bytes", options.budgets.device},
      {"predicted_peak_bytes", trainer.predicted_peak_bytes()},
      {"measured_peak_bytes", trainer.measured_peak_bytes()},
      {"host_bytes", trainer.predicted_peak_bytes(Tier::host)},
      {"measured_host_bytes", trainer.measured_peak_bytes(Tier::host)},
      {"disk_bytes", trainer.predicted_peak_bytes(Tier::disk)},
      {"measured_disk_bytes", trainer.measured_peak_bytes(Tier::disk)},
      {"peak_resident_bytes", process_peak_bytes()},
      {"process_peak_bytes", process_peak_bytes()},
      {"outside_bytes", outside_bytes(trainer)},
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
      {"steps_made", run.steps_made()},
      {"samples", losses.samples},
      {"waited_s", loader.waited_seconds()},
      {"skipped_samples", run.skipped()},
  };
  object.update(to_json(coverage_of(session.profile, trainer.main().graph, prepared.program)));
  if (!run.stopped_by.empty()) object["stopped_by"] = run.stopped_by;
  if (const std::string failure = run.log_failure(); !failure.empty()) object["log_failure"] = failure;
  if (run.evaluation) {
    object["eval_loss"] = run.evaluation->loss;
    object["eval_samples"] = run.evaluation->samples;
    if (run.evaluation->rows > 0) object["eval_accuracy"] = run.evaluation->accuracy();
    if (run.evaluation->rows > 0) object["eval_accuracy5"] = run.evaluation->accuracy5();
  }
  fmt::print("{}\n", object.dump(2));
}

void print_refusal(const Session& session, const PrepareOptions& options, const BudgetError& error) {
  nlohmann::ordered_json object{{"fits", false},
                                {"model", session.model},
                                {"backend", session.backend->name()},
                                {"planner", choose_planner(options.planner).planner.name},
                                {"planner_options", to_json(given_options(options))},
                                {"budget_bytes", options.budgets.device},
                                {"missing_bytes", nullptr},
                                {"missing_tier", nullptr},
                                {"error", error.what()},
                                {"status", kBudgetRefused}};
  if (const Refusal& refusal = error.refusal(); refusal.of_bytes()) {
    object["missing_bytes"] = refusal.missing();
    object["missing_tier"] = name_of(refusal.tier);
  }
  object.update(advice_json(error));
  fmt::print("{}\n", object.dump(2));
}

// A run of hours should not end with a file that cannot be written, or take the place of something else.
void check_writable(const std::string& path) {
  if (path.empty()) return;
  expect_replaceable(path);
  OutputFile{path};
}

LoaderOptions loader_options(const TrainFlags& flags, bool training) {
  LoaderOptions options;
  options.shuffle = training && flags.shuffle == "on";
  options.replace = training;
  options.strict = flags.strict;
  options.seed = flags.common.seed;
  options.threads = static_cast<int>(flags.load_threads);
  for (const std::string& kind : flags.augment) {
    if (kind != "flip" && kind != "crop") user_error("--augment: '{}' is not one of flip, crop", kind);
    options.augment.flip = options.augment.flip || (training && kind == "flip");
    options.augment.crop = options.augment.crop || (training && kind == "crop");
  }
  return options;
}

// Where a path leads, whether or not there is a file.
std::filesystem::path place_of(const std::string& path) {
  return std::filesystem::weakly_canonical(std::filesystem::absolute(path));
}

// No two of the files may be one, or the later would take the place of the earlier; only weights may be continued in place.
void check_distinct(const TrainFlags& flags) {
  struct File {
    std::string_view flag;
    const std::string& path;
    bool written;
  };
  const std::string model = is_file(flags.model) ? flags.model.model : std::string();
  const File files[]{{"--save", flags.save, true},
                     {"--save-gradients", flags.save_gradients, true},
                     {"--log", flags.log, true},
                     {"--plan", flags.plan.plan_file, false},
                     {"--weights", flags.weights, false},
                     {"--data", flags.data, false},
                     {"--eval-data", flags.eval_data, false},
                     {"MODEL", model, false}};
  for (const File& a : files)
    for (const File& b : files) {
      const bool continued = a.flag == "--save" && b.flag == "--weights";
      if (a.flag == b.flag || !a.written || continued || a.path.empty() || b.path.empty()) continue;
      if (place_of(a.path) == place_of(b.path)) user_error("{} and {} name the same file, '{}'", a.flag, b.flag, a.path);
    }
}

void check_schedule(const TrainFlags& flags) {
  const LearningRate& rate = flags.learning_rate;
  if (flags.schedule == "step" && rate.every == 0) user_error("--schedule step: give --schedule-every too");
  if (flags.schedule != "step" && (rate.every > 0 || rate.factor != LearningRate{}.factor))
    user_error("--schedule-every and --schedule-factor: apply to --schedule step");
}

// The extents that stand for each sample's own are 0.
BatchSpec with_own_sizes(BatchSpec spec) {
  spec.x_shape[0] = spec.y_shape[0] = 1;
  const Dims sample = without_first(spec.x_shape), positions = without_first(sample), own = Dims::filled(positions.rank(), 0);
  if (own.rank() == 0) user_error("--image own: the model takes {}, not images", to_string(sample));
  spec.x_shape = with_positions(spec.x_shape, own);
  if (follows(without_first(spec.y_shape), positions)) spec.y_shape = with_positions(spec.y_shape, own);
  return spec;
}

// Shapes of samples that are planned for before the first step.
constexpr std::size_t kShapesTried = 32;

// The shapes of batches of one sample, the largest first, not more than are tried: what fits those should fit them all.
std::vector<Dims> largest_samples(const Dataset& dataset) {
  if (dataset.size() == 0) user_error("--image own: the sizes of {} have no end; give a count", dataset.name());
  std::vector<Dims> shapes;
  std::string wrong;  // with the first that cannot be read
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    try {
      Dims shape{1};
      for (std::int64_t extent : dataset.open(i)->x_extents()) shape.push_back(extent);
      if (std::find(shapes.begin(), shapes.end(), shape) != shapes.end()) continue;
      shapes.push_back(shape);
      std::stable_sort(shapes.begin(), shapes.end(), [](const Dims& a, const Dims& b) { return a.product() > b.product(); });
      if (shapes.size() > kShapesTried) shapes.pop_back();
    } catch (const SampleError& error) {  // the loader tells of it when it comes to it
      if (wrong.empty()) wrong = error.what();
    }
  }
  if (shapes.empty()) user_error("{}: not one of its {} samples can be read; the first: {}", dataset.name(), dataset.size(), wrong);
  return shapes;
}

// Throws UserError unless two graphs of a model have the same parameters and states.
void expect_same_persistents(const Graph& graph, const Graph& main, std::string_view model, const Dims& x_shape) {
  for (const Value& value : graph.values()) {
    if (!value.persistent() || value.producer) continue;
    const ValueId found = main.find_value(value.name);
    if (!found || main.value(found).type != value.type)
      user_error("{}: with samples of {} its parameter '{}' is another; all samples must be of one size (--image)", model,
                 to_string(without_first(x_shape)), value.name);
  }
}

// Plans of the checkpoint that a run goes on from, by the names of their programs.
using SavedPlans = std::map<std::string, std::string>;

SavedPlans saved_plans(const std::optional<Checkpoint>& from, const RunState& now) {
  if (!from) return {};
  const std::string other = difference(from->state.request, now.request);
  if (other.empty()) return from->state.plans;
  say("the checkpoint's {}; the run is planned anew", other);
  return {};
}

// The step by the plan that was saved of it, so that nothing that was measured or changed since then changes the program; nothing
// where there is none, or where it does not do any more, which is told.
std::optional<Prepared> prepare_saved(Session& session, const StepGraph& step, PrepareOptions options, const SavedPlans& saved) {
  const auto found = saved.find(program_name(step.kind, step.graph.value(step.x).type.shape));
  if (found == saved.end()) return std::nullopt;
  options.plan_text = found->second;
  options.plan_file = fmt::format("the checkpoint's plan of {}", found->first);
  const auto tell = [](std::string_view why) { say("{}; it is planned anew", why); };
  try {
    Planned<Prepared> prepared = prepare(step.graph, *session.backend, session.profile, options);
    if (prepared) return *std::move(prepared);
    tell(sentence_of(prepared.refusal()));
  } catch (const UserError& error) {  // a plan that is not of this graph
    tell(error.what());
  }
  return std::nullopt;
}

// The programs of a run besides its first: parts of steps, evaluation, smaller batches, samples of other sizes.
Trainer::Maker program_maker(Session& session, const TrainFlags& flags, const PrepareOptions& options, const SavedPlans& saved) {
  return [&session, &flags, options, saved](StepKind kind, const Dims& x_shape, const PersistentLayout& layout) {
    StepProgram made;
    made.step = make_step_graph(load_model(flags.model, x_shape), kind, flags.training);
    expect_same_persistents(made.step.graph, session.training.graph, session.model, x_shape);
    PrepareOptions other = options;
    other.plan_text.clear();  // which is for the first alone
    other.layout = &layout;
    std::optional<Prepared> again = prepare_saved(session, made.step, other, saved);
    made.prepared = again ? std::move(*again) : prepare(made.step.graph, *session.backend, session.profile, other).take();
    return made;
  };
}

// Whether the model takes the smaller batch that ends an epoch of `loader`: a graph file may fix its batch, and the statistics of
// training need more than one value.
bool takes_last_batch(const TrainFlags& flags, const Loader& loader, const BatchSpec& spec, bool training) {
  const std::int64_t batches = loader.batches_per_epoch();
  const std::int64_t samples = batches > 0 ? loader.samples_of(batches - 1) : spec.batch();
  if (samples == spec.batch()) return true;
  Dims shape = spec.x_shape;
  shape[0] = samples;
  try {
    make_step_graph(load_model(flags.model, shape), training ? StepKind::whole : StepKind::evaluate, flags.training);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

void say_left_out(const Loader& loader, const BatchSpec& spec) {
  const std::int64_t samples = loader.dataset().size() % spec.batch();
  say("{}: the model takes no batch of {}, so that the last {} of {} samples are left out of each epoch", loader.dataset().name(),
      samples, samples, loader.dataset().size());
}

std::unique_ptr<Loader> make_loader(const TrainFlags& flags, std::shared_ptr<const Dataset> dataset, const BatchSpec& spec,
                                    bool training) {
  LoaderOptions options = loader_options(flags, training);
  auto loader = std::make_unique<Loader>(dataset, spec, options);
  if (flags.model.own_sizes || takes_last_batch(flags, *loader, spec, training)) return loader;
  // Evaluation counts every sample: a somewhat smaller batch may leave a rest that the model takes.
  for (BatchSpec smaller = spec; !training && smaller.batch() > 1;) {
    smaller.x_shape[0] = smaller.y_shape[0] = smaller.batch() - 1;
    loader = std::make_unique<Loader>(dataset, smaller, options);
    if (takes_last_batch(flags, *loader, smaller, training)) return loader;
  }
  if (!training) loader = std::make_unique<Loader>(dataset, spec, options);
  say_left_out(*loader, spec);
  options.drop_last = true;
  return std::make_unique<Loader>(std::move(dataset), spec, options);
}

// The set to evaluate on: --eval-data, or the test part of --data; nothing where there is neither.
std::unique_ptr<Loader> make_eval_loader(const TrainFlags& flags, const BatchSpec& spec, DataOptions options) {
  const bool own = flags.eval_data.empty() && !flags.data.empty() && has_test_part(flags.data);
  if (flags.eval_data.empty() && !own) {
    if (flags.eval_every > 0) user_error("--eval-every: there is nothing to evaluate on; give --eval-data, or a folder with test/");
    return nullptr;
  }
  const std::string& what = own ? flags.data : flags.eval_data;
  options.part = has_test_part(what) ? Part::test : Part::train;
  std::unique_ptr<Loader> loader = make_loader(flags, make_dataset(what, options), spec, false);
  if (loader->batches_per_epoch() == 0 && own) return nullptr;  // a set without end
  if (loader->batches_per_epoch() == 0) user_error("--eval-data: {} has no end", loader->dataset().name());
  return loader;
}

// Programs that the run will need, made beforehand, so that a budget they cannot meet shows before the first step.
void expect_programs(Trainer& trainer, const TrainFlags& flags, const Loader& loader, const Loader* eval_loader, Dims x_shape) {
  const auto expect_step = [&](const Dims& shape) {
    trainer.expect(flags.accumulate > 1 ? StepKind::last : StepKind::whole, shape);
    if (flags.accumulate > 1) trainer.expect(StepKind::first, shape);
    if (flags.accumulate > 2) trainer.expect(StepKind::more, shape);
  };
  expect_step(x_shape);
  if (flags.model.own_sizes) {
    for (const Dims& shape : largest_samples(loader.dataset())) expect_step(shape);
    if (eval_loader)
      for (const Dims& shape : largest_samples(eval_loader->dataset())) trainer.expect(StepKind::evaluate, shape);
    return;
  }
  const auto last = [&](const Loader& from) {
    x_shape[0] = from.samples_of(std::max<std::int64_t>(from.batches_per_epoch() - 1, 0));
    return x_shape;
  };
  if (eval_loader) {
    const Dims before = x_shape;
    x_shape[0] = eval_loader->samples_of(0);
    trainer.expect(StepKind::evaluate, x_shape);
    trainer.expect(StepKind::evaluate, last(*eval_loader));
    x_shape = before;
  }
  if (flags.accumulate == 1) trainer.expect(StepKind::whole, last(loader));
}

constexpr std::int64_t kMostLoadThreads = 256;

void check_flags(const TrainFlags& flags) {
  check_distinct(flags);
  check_schedule(flags);
  if (flags.load_threads > kMostLoadThreads) user_error("--load-threads: {} is more than {}", flags.load_threads, kMostLoadThreads);
  check_writable(flags.save);
  check_writable(flags.save_gradients);
  if (flags.checkpoint.empty() && (flags.resume || flags.checkpoint_every > 0))
    user_error("{}: give --checkpoint DIR too", flags.resume ? "--resume" : "--checkpoint-every");
  if (flags.partial && flags.weights.empty()) user_error("--partial: says how to take --weights; give them too");
  if (flags.patience > 0 && flags.eval_every == 0) user_error("--patience: counts evaluations; give --eval-every too");
  if (flags.patience > 0 && flags.checkpoint.empty())
    user_error("--patience: keeps the weights of the best evaluation in --checkpoint DIR; give that too");
}

// Samples of their own sizes come one by one, whether the model is of the zoo or a file.
void take_own_sizes(ModelFlags& model) {
  const bool batch_given = std::erase(model.zoo_only, "--batch") > 0;
  if (batch_given && model.options.batch != 1)
    user_error("--image own: samples of different sizes make no batch of {}; give --accumulate instead", model.options.batch);
  model.options.batch = 1;
  std::erase(model.zoo_only, "--image");
}

// Plans, trains, saves and reports.
int run_training(Session& session, const TrainFlags& flags, const PrepareOptions& options, Loader& loader, Loader* eval_loader,
                 std::int64_t steps) {
  std::optional<CheckpointLock> lock;
  if (!flags.checkpoint.empty()) lock.emplace(flags.checkpoint);
  RunState state = describe_run(session, flags, loader, eval_loader, steps);
  const std::optional<Checkpoint> from = find_start(flags, state);
  const SavedPlans saved = saved_plans(from, state);
  std::optional<Prepared> again;
  if (options.plan_text.empty()) again = prepare_saved(session, session.training, options, saved);
  Prepared prepared =
      again ? std::move(*again) : prepare_or_advise(session, options, rebuild_of(session, flags.model, flags.training));
  if (dump_plan(session, prepared, flags.plan)) return kDone;
  refine(session, prepared);
  Trainer trainer({session.training, std::move(prepared)}, *session.backend, flags.common.seed, flags.plan.spill,
                  program_maker(session, flags, options, saved), flags.check_spill);
  const StepGraph& main = trainer.main();
  // What is too large to be made ahead never is whole outside the memory of the run.
  for (Loader* one : {&loader, eval_loader})
    if (one && (trainer.takes_windows() || !one->runs_ahead())) one->leave_x_out();
  expect_programs(trainer, flags, loader, eval_loader, main.graph.value(main.x).type.shape);

  if (!flags.weights.empty()) load_weights(trainer, flags.weights, flags.partial);
  state.kernels = kernel_table(main.graph, trainer.prepared().program, *session.backend);
  TrainingRun run(flags, std::move(state), trainer, loader, eval_loader, steps);
  if (from) run.resume(*from);
  run.run();
  if (!flags.save.empty()) trainer.save(flags.save);
  if (!flags.save_gradients.empty()) trainer.save_gradients(flags.save_gradients, run.losses.values);
  if (flags.common.json)
    print_json(session, trainer, loader, run, options, flags.accumulate);
  else
    print_summary(session, trainer, loader, run, options);
  return run.status();
}

// The programs that the run has beside its step's, of samples of the same size.
void add_others(Session& session, const TrainFlags& flags, bool evaluates) {
  std::vector<StepKind> kinds;
  if (flags.accumulate > 1) kinds.push_back(StepKind::first);
  if (evaluates) kinds.push_back(StepKind::evaluate);
  if (kinds.empty()) return;
  const Graph forward = load_model(flags.model, session.training.graph.value(session.training.x).type.shape);
  for (const StepKind kind : kinds) session.others.push_back(make_step_graph(forward, kind, flags.training));
}

int train(TrainFlags flags) {
  check_flags(flags);
  if (flags.model.own_sizes) take_own_sizes(flags.model);
  // The data knows its classes, but a graph file has its own.
  if (flags.model.options.classes == 0 && !flags.data.empty() && !is_file(flags.model))
    flags.model.options.classes = classes_of(flags.data).value_or(0);
  flags.training.gradients = !flags.save_gradients.empty();
  const StepKind kind = flags.accumulate > 1 ? StepKind::last : StepKind::whole;
  Session session = open_session(flags.common, flags.model, flags.plan, flags.training, kind);
  BatchSpec spec = session.training.batch_spec();
  const bool own = flags.model.own_sizes;
  if (own) spec = with_own_sizes(spec);
  const DataOptions data{.spec = spec, .seed = flags.common.seed, .fit = flags.fit == "crop" ? Fit::crop : Fit::resize};
  const std::shared_ptr<const Dataset> dataset = make_dataset(flags.data, data);
  const std::unique_ptr<Loader> loader = make_loader(flags, dataset, spec, true);
  const std::unique_ptr<Loader> eval_loader = make_eval_loader(flags, spec, data);
  if (own) session.use(make_step_graph(load_model(flags.model, largest_samples(*dataset).front()), kind, flags.training));
  if (dump_graph(session, flags.model, flags.plan)) return kDone;
  const std::int64_t steps = count_steps(flags, *loader);
  flags.learning_rate.kind = parse_schedule(flags.schedule);
  flags.learning_rate.total = steps;

  const PrepareOptions options = resolve(session, flags.plan);
  add_others(session, flags, eval_loader != nullptr);
  try {
    try {
      return run_training(session, flags, options, *loader, eval_loader.get(), steps);
    } catch (const AdvisedError&) {
      throw;
    } catch (const BudgetError& error) {  // of another program than the step's
      throw AdvisedError(error.refusal(), options,
                         advise(session, options, error.refusal(), rebuild_of(session, flags.model, flags.training)));
    }
  } catch (const BudgetError& error) {
    // Under --json a refused budget is an answer too, whichever program of the run it is that does not fit.
    if (flags.common.json) print_refusal(session, options, error);
    throw;
  }
}

}  // namespace

Run add_train(CLI::App& command) {
  auto flags = std::make_shared<TrainFlags>();
  add_model_flags(command, flags->model);
  add_integer(command, "--steps", flags->steps, 1, fmt::format("training steps [{}]", kDefaultSteps));
  add_integer(command, "--epochs", flags->epochs, 1, "passes over --data, instead of --steps");
  add_integer(command, "--accumulate", flags->accumulate, 1, "batches a step: their gradients are summed before the update [1]");
  add_number(command, "--lr", flags->learning_rate.base, 0, "learning rate [0.01]");
  add_word(command, "--schedule", flags->schedule, {"constant", "step", "cosine"}, "how it goes on [constant]");
  add_integer(command, "--warm-up", flags->learning_rate.warm_up, 0, "steps in which it rises to --lr [0]");
  add_integer(command, "--schedule-every", flags->learning_rate.every, 1, "schedule step: after so many steps …");
  add_number(command, "--schedule-factor", flags->learning_rate.factor, 0, "… it is multiplied by this [0.1]");
  add_optimizer_flags(command, flags->training);
  command.add_option("--data", flags->data, std::string(kDataForms) + " [synthetic]")->type_name("DATA");
  add_word(command, "--shuffle", flags->shuffle, {"on", "off"}, "another order of --data each epoch [on]");
  add_word(command, "--fit", flags->fit, {"resize", "crop"}, "how images become --image large [resize]");
  command.add_option("--augment", flags->augment, "flip, crop: draw another view of each sample each epoch")
      ->delimiter(',')
      ->type_name("KINDS");
  command.add_flag("--strict", flags->strict,
                   "end at the first sample that cannot be read, instead of taking the next (in evaluation: leaving it out)");
  add_integer(command, "--load-threads", flags->load_threads, 0, "threads that make batches ahead [2]");
  command.add_option("--eval-data", flags->eval_data, "evaluate on this [the test part of --data]")->type_name("DATA");
  add_integer(command, "--eval-every", flags->eval_every, 1, "evaluate after so many steps [at the end]");
  add_integer(command, "--patience", flags->patience, 1,
              "stop after so many evaluations without a lower loss; the best weights are then in --checkpoint's best.safetensors");
  add_integer(command, "--print-every", flags->print_every, 1, "steps between lines where there is no terminal [a twentieth]");
  command.add_option("--checkpoint", flags->checkpoint, "write checkpoints there, one at the end or when stopped")
      ->type_name("DIR");
  add_integer(command, "--checkpoint-every", flags->checkpoint_every, 1, "… and one after so many steps");
  command.add_flag("--resume", flags->resume, "go on from the newest checkpoint as if never stopped");
  command
      .add_option("--log", flags->log,
                  "append a JSON line for each step and evaluation; where that fails, the run goes on and ends with status 2")
      ->type_name("FILE");
  command.add_option("--weights", flags->weights, "start from these parameters and states")->type_name("FILE.safetensors");
  command.add_flag("--partial", flags->partial, "take those of --weights that fit the model; the others stay as initialised");
  command
      .add_option("--save", flags->save,
                  "write parameters and states at the end; takes the place of no file but a safetensors file")
      ->type_name("FILE.safetensors");
  command.add_option("--save-gradients", flags->save_gradients, "write the last step's gradients and all losses")
      ->type_name("FILE.safetensors");
  command.add_flag("--check-spill", flags->check_spill,
                   "compare what comes back from host memory and disk with what went there (debug builds always do)");
  add_plan_flags(command, flags->plan);
  add_common_flags(command, flags->common);
  return [flags] { return train(*flags); };
}

}  // namespace outsize::cli
