#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "backend/host_memory.h"
#include "base/positions.h"
#include "base/say.h"
#include "cost/devices.h"
#include "data/datasets.h"
#include "outsize/outsize.h"
#include "run/batch_spec.h"
#include "run/trace_file.h"
#include "run/training_run.h"
#include "search/row.h"

namespace outsize {
namespace {

std::int64_t count_steps(const TrainingRequest& request, const Loader& loader) {
  if (request.steps > 0 && request.epochs > 0) user_error("give --steps or --epochs, not both");
  if (request.epochs == 0) return request.steps > 0 ? request.steps : kDefaultSteps;
  if (loader.batches_per_epoch() == 0) user_error("--epochs: {} data has no end; give --steps", loader.dataset().name());
  return request.epochs * steps_per_epoch(loader, request.accumulate);
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

// A run of hours should not end with a file that cannot be written, or take the place of something else: `expect_own` throws where
// there is another file than one of the same kind.
void check_writable(const std::string& path, void (*expect_own)(const std::string&)) {
  if (path.empty()) return;
  expect_own(path);
  OutputFile{path};
}

LoaderOptions loader_options(const TrainingRequest& request, bool training) {
  LoaderOptions options;
  options.shuffle = training && request.shuffle == "on";
  options.replace = training;
  options.strict = request.strict;
  options.seed = request.task.machine.seed;
  options.threads = static_cast<int>(request.load_threads);
  for (const std::string& kind : request.augment) {
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
void check_distinct(const TrainingRequest& request) {
  struct File {
    std::string_view flag;
    const std::string& path;
    bool written;
  };
  const std::string model = request.task.model.is_file() ? request.task.model.name : std::string();
  const File files[]{
      {"--save", request.save, true},  {"--save-gradients", request.save_gradients, true}, {"--trace", request.trace, true},
      {"--log", request.log, true},    {"--plan", request.task.planning.plan_file, false}, {"--weights", request.weights, false},
      {"--data", request.data, false}, {"--eval-data", request.eval_data, false},          {"MODEL", model, false}};
  for (const File& a : files)
    for (const File& b : files) {
      const bool continued = a.flag == "--save" && b.flag == "--weights";
      if (a.flag == b.flag || !a.written || continued || a.path.empty() || b.path.empty()) continue;
      if (place_of(a.path) == place_of(b.path)) user_error("{} and {} name the same file, '{}'", a.flag, b.flag, a.path);
    }
}

void check_schedule(const TrainingRequest& request) {
  const LearningRate& rate = request.learning_rate;
  if (request.schedule == "step" && rate.every == 0) user_error("--schedule step: give --schedule-every too");
  if (request.schedule != "step" && (rate.every > 0 || rate.factor != LearningRate{}.factor))
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

// The text of a plan without its `kernel` lines.
std::string without_kernels(std::string_view plan) {
  std::string text;
  while (!plan.empty()) {
    const std::size_t end = std::min(plan.find('\n'), plan.size() - 1) + 1;
    if (!plan.starts_with("kernel ")) text += plan.substr(0, end);
    plan.remove_prefix(end);
  }
  return text;
}

// The step by the plan that was saved of it, so that nothing that was measured or changed since then changes the program; nothing
// where there is none, or where it does not do any more, which is told.
std::optional<Prepared> prepare_saved(Session& session, const StepGraph& step, PrepareOptions options, const SavedPlans& saved) {
  const auto found = saved.find(program_name(step.kind, step.graph.value(step.x).type.shape));
  if (found == saved.end()) return std::nullopt;
  options.plan_file = fmt::format("the checkpoint's plan of {}", found->first);
  const std::string bare = without_kernels(found->second);
  // A library of another version may not have the kernels any more.
  for (const std::string& text : {found->second, bare}) {
    options.plan_text = text;
    const bool last = text == bare;
    const auto tell = [&](std::string_view why) {
      say("{}; {}", why, last ? "it is planned anew" : "its kernels are chosen anew, and results may differ in the last bits");
    };
    try {
      Planned<Prepared> prepared = prepare(step.graph, *session.backend, session.profile, options);
      if (prepared) return *std::move(prepared);
      tell(sentence_of(prepared.refusal()));
    } catch (const UserError& error) {  // a plan that is not of this graph
      tell(error.what());
    }
    if (last) break;
  }
  return std::nullopt;
}

// The programs of a run besides its first: parts of steps, evaluation, smaller batches, samples of other sizes.
Trainer::Maker program_maker(Session& session, const TrainingRequest& request, const PrepareOptions& options,
                             const SavedPlans& saved) {
  return [&session, &request, options, saved](StepKind kind, const Dims& x_shape, const PersistentLayout& layout) {
    StepProgram made;
    made.step = make_step_graph(load_model(request.task.model, x_shape), kind, request.task.training);
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
bool takes_last_batch(const TrainingRequest& request, const Loader& loader, const BatchSpec& spec, bool training) {
  const std::int64_t batches = loader.batches_per_epoch();
  const std::int64_t samples = batches > 0 ? loader.samples_of(batches - 1) : spec.batch();
  if (samples == spec.batch()) return true;
  Dims shape = spec.x_shape;
  shape[0] = samples;
  try {
    make_step_graph(load_model(request.task.model, shape), training ? StepKind::whole : StepKind::evaluate, request.task.training);
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

std::unique_ptr<Loader> make_loader(const TrainingRequest& request, std::shared_ptr<const Dataset> dataset, const BatchSpec& spec,
                                    bool training) {
  LoaderOptions options = loader_options(request, training);
  auto loader = std::make_unique<Loader>(dataset, spec, options);
  if (request.task.model.own_sizes || takes_last_batch(request, *loader, spec, training)) return loader;
  // Evaluation counts every sample: a somewhat smaller batch may leave a rest that the model takes.
  for (BatchSpec smaller = spec; !training && smaller.batch() > 1;) {
    smaller.x_shape[0] = smaller.y_shape[0] = smaller.batch() - 1;
    loader = std::make_unique<Loader>(dataset, smaller, options);
    if (takes_last_batch(request, *loader, smaller, training)) return loader;
  }
  if (!training) loader = std::make_unique<Loader>(dataset, spec, options);
  say_left_out(*loader, spec);
  options.drop_last = true;
  return std::make_unique<Loader>(std::move(dataset), spec, options);
}

// The set to evaluate on: --eval-data, or the test part of --data; nothing where there is neither.
std::unique_ptr<Loader> make_eval_loader(const TrainingRequest& request, const BatchSpec& spec, DataOptions options) {
  const bool own = request.eval_data.empty() && !request.data.empty() && has_test_part(request.data);
  if (request.eval_data.empty() && !own) {
    if (request.eval_every > 0)
      user_error("--eval-every: there is nothing to evaluate on; give --eval-data, or a folder with test/");
    return nullptr;
  }
  const std::string& what = own ? request.data : request.eval_data;
  options.part = has_test_part(what) ? Part::test : Part::train;
  std::unique_ptr<Loader> loader = make_loader(request, make_dataset(what, options), spec, false);
  if (loader->batches_per_epoch() == 0 && own) return nullptr;  // a set without end
  if (loader->batches_per_epoch() == 0) user_error("--eval-data: {} has no end", loader->dataset().name());
  return loader;
}

// Programs that the run will need, made beforehand, so that a budget they cannot meet shows before the first step.
void expect_programs(Trainer& trainer, const TrainingRequest& request, const Loader& loader, const Loader* eval_loader,
                     Dims x_shape) {
  const auto expect_step = [&](const Dims& shape) {
    trainer.expect(request.accumulate > 1 ? StepKind::last : StepKind::whole, shape);
    if (request.accumulate > 1) trainer.expect(StepKind::first, shape);
    if (request.accumulate > 2) trainer.expect(StepKind::more, shape);
  };
  expect_step(x_shape);
  if (request.task.model.own_sizes) {
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
  if (request.accumulate == 1) trainer.expect(StepKind::whole, last(loader));
}

constexpr std::int64_t kMostLoadThreads = 256;

void check_request(const TrainingRequest& request) {
  const std::string& device = request.task.planning.device;
  if (!device.empty() && find_device(device).name != devices().front().name)
    user_error("--device {}: training runs on this machine; `plan`, `compare` and `fit` predict for others",
               request.task.planning.device);
  check_distinct(request);
  check_schedule(request);
  if (request.load_threads > kMostLoadThreads)
    user_error("--load-threads: {} is more than {}", request.load_threads, kMostLoadThreads);
  check_writable(request.save, expect_replaceable);
  check_writable(request.save_gradients, expect_replaceable);
  check_writable(request.trace, expect_trace);
  if (request.checkpoint.empty() && (request.resume || request.checkpoint_every > 0))
    user_error("{}: give --checkpoint DIR too", request.resume ? "--resume" : "--checkpoint-every");
  if (request.partial && request.weights.empty()) user_error("--partial: says how to take --weights; give them too");
  if (request.patience > 0 && request.eval_every == 0) user_error("--patience: counts evaluations; give --eval-every too");
  if (request.patience > 0 && request.checkpoint.empty())
    user_error("--patience: keeps the weights of the best evaluation in --checkpoint DIR; give that too");
}

// Samples of their own sizes come one by one, whether the model is of the zoo or a file.
void take_own_sizes(ModelRequest& model) {
  const bool batch_given = std::erase(model.zoo_only, "--batch") > 0;
  if (batch_given && model.options.batch != 1)
    user_error("--image own: samples of different sizes make no batch of {}; give --accumulate instead", model.options.batch);
  model.options.batch = 1;
  std::erase(model.zoo_only, "--image");
}

// What a run that has ended comes to.
void fill(TrainingReport& report, const Session& session, Trainer& trainer, const Loader& loader, const TrainingRun& run,
          const PrepareOptions& options) {
  const Prepared& prepared = trainer.prepared();
  report.row = row_of(trainer.main().graph, session.profile, options, prepared);
  report.rounding = rounds(trainer.main().graph, prepared.plan);
  report.coverage = coverage_of(session.profile, trainer.main().graph, prepared.program);
  report.losses = run.losses.values;
  report.step_seconds = run.losses.seconds;
  report.measured_step_s = run.losses.median_seconds();
  report.samples = run.losses.samples;
  report.steps_made = run.steps_made();
  for (const Tier tier : kTiers) {
    report.predicted_peaks[tier] = trainer.predicted_peak_bytes(tier);
    report.measured_peaks[tier] = trainer.measured_peak_bytes(tier);
  }
  report.process_peak_bytes = process_peak_bytes();
  report.device_outside_bytes = session.backend->outside_bytes();
  report.outside_bytes = std::max<std::int64_t>(0, report.process_peak_bytes - trainer.memory_bytes());
  report.evaluation = run.evaluation;
  report.stopped_by = run.stopped_by;
  report.waited_seconds = loader.waited_seconds();
  report.skipped = run.skipped();
  report.log_failure = run.log_failure();
  report.parameters_sha256 = trainer.parameters_sha256();
  report.states_sha256 = trainer.states_sha256();
}

// Plans, trains, saves and reports. Throws BudgetError where a program of the run does not fit.
void run_training(TrainingReport& report, Session& session, const TrainingRequest& request, const PrepareOptions& options,
                  Loader& loader, Loader* eval_loader, std::int64_t steps) {
  std::optional<CheckpointLock> lock;
  if (!request.checkpoint.empty()) lock.emplace(request.checkpoint);
  RunState state = describe_run(session, request, loader, eval_loader, steps);
  const std::optional<Checkpoint> from = find_start(request, state);
  const SavedPlans saved = saved_plans(from, state);
  std::optional<Prepared> again;
  if (options.plan_text.empty()) again = prepare_saved(session, session.training, options, saved);
  Prepared prepared =
      again ? std::move(*again) : prepare(session.training.graph, *session.backend, session.profile, options).take();
  report.dumped = dump_of_plan(session, prepared, request.task.planning.dump);
  if (!report.dumped.empty()) return;
  refine(session, prepared);
  Trainer trainer({session.training, std::move(prepared)}, *session.backend, request.task.machine.seed, request.task.planning.spill,
                  program_maker(session, request, options, saved), request.check_spill, !request.trace.empty());
  const StepGraph& main = trainer.main();
  // What is too large to be made ahead never is whole outside the memory of the run.
  for (Loader* one : {&loader, eval_loader})
    if (one && (trainer.takes_windows() || !one->runs_ahead())) one->leave_out();
  expect_programs(trainer, request, loader, eval_loader, main.graph.value(main.x).type.shape);

  if (!request.weights.empty()) load_weights(trainer, request.weights, request.partial);
  state.kernels = kernel_table(main.graph, trainer.prepared().program, *session.backend);
  TrainingRun run(request, session.observer, std::move(state), trainer, loader, eval_loader, steps);
  if (from) run.resume(*from);
  run.run();
  if (!request.save.empty()) trainer.save(request.save);
  if (!request.save_gradients.empty()) trainer.save_gradients(request.save_gradients, run.losses.values);
  if (!request.trace.empty())
    write_trace(request.trace, main.graph, trainer.prepared().program, *session.backend, session.profile, trainer.trace());
  fill(report, session, trainer, loader, run, options);
}

// The programs that the run has beside its step's, of samples of the same size.
void add_others(Session& session, const TrainingRequest& request, bool evaluates) {
  std::vector<StepKind> kinds;
  if (request.accumulate > 1) kinds.push_back(StepKind::first);
  if (evaluates) kinds.push_back(StepKind::evaluate);
  if (kinds.empty()) return;
  const Graph forward = load_model(request.task.model, session.training.graph.value(session.training.x).type.shape);
  for (const StepKind kind : kinds) session.others.push_back(make_step_graph(forward, kind, request.task.training));
}

}  // namespace

TrainingReport train(const TrainingRequest& asked, const Observer& observer) {
  TrainingRequest request = asked;
  check_request(request);
  ModelRequest& model = request.task.model;
  if (model.own_sizes) take_own_sizes(model);
  // The data knows its classes, but a graph file has its own.
  if (model.options.classes == 0 && !request.data.empty() && !model.is_file())
    model.options.classes = classes_of(request.data).value_or(0);
  TrainingOptions& training = request.task.training;
  training.accuracy = true;
  training.gradients = !request.save_gradients.empty();
  const StepKind kind = request.accumulate > 1 ? StepKind::last : StepKind::whole;
  Session session = open_session(request.task, observer, kind);
  BatchSpec spec = batch_spec_of(session.training);
  const bool own = model.own_sizes;
  if (own) spec = with_own_sizes(spec);
  const DataOptions data{.spec = spec, .seed = request.task.machine.seed, .fit = request.fit == "crop" ? Fit::crop : Fit::resize};
  const std::shared_ptr<const Dataset> dataset = make_dataset(request.data, data);
  const std::unique_ptr<Loader> loader = make_loader(request, dataset, spec, true);
  const std::unique_ptr<Loader> eval_loader = make_eval_loader(request, spec, data);
  if (own) session.use(make_step_graph(load_model(model, largest_samples(*dataset).front()), kind, training));
  TrainingReport report;
  report.dumped = dump_of_graph(session, request.task);
  if (!report.dumped.empty()) return report;
  const std::int64_t steps = count_steps(request, *loader);
  request.learning_rate.kind = parse_schedule(request.schedule);
  request.learning_rate.total = steps;

  const PrepareOptions options = resolve(session, request.task.planning);
  add_others(session, request, eval_loader != nullptr);
  report.facts = session.facts(options);
  report.data = dataset->name();
  report.accumulate = request.accumulate;
  try {
    run_training(report, session, request, options, *loader, eval_loader.get(), steps);
  } catch (const BudgetError& error) {  // of whichever program of the run it is that does not fit
    report.row = row_of(options, error.refusal());
    report.refused = advised(session, request.task, options, error.refusal());
  }
  return report;
}

EvaluationReport evaluate(const Task& asked, const std::string& weights, const std::string& data, const Observer& observer) {
  TrainingRequest request{.task = asked, .data = data};
  ModelRequest& model = request.task.model;
  if (model.own_sizes) user_error("--image own: evaluation takes one size; give it in pixels");
  if (model.options.classes == 0 && !model.is_file()) model.options.classes = classes_of(data).value_or(0);
  request.task.training.accuracy = true;
  Session session = open_session(request.task, observer, StepKind::evaluate);
  const BatchSpec spec = batch_spec_of(session.training);
  DataOptions options_of_data{.spec = spec, .seed = request.task.machine.seed, .fit = Fit::resize};
  options_of_data.part = has_test_part(data) ? Part::test : Part::train;
  const std::unique_ptr<Loader> loader = make_loader(request, make_dataset(data, options_of_data), spec, false);
  if (loader->batches_per_epoch() == 0) user_error("{} has no end", loader->dataset().name());
  const PrepareOptions options = resolve(session, request.task.planning);
  EvaluationReport report;
  report.facts = session.facts(options);
  report.data = loader->dataset().name();
  try {
    Prepared prepared = prepare(session.training.graph, *session.backend, session.profile, options).take();
    report.row = row_of(session.training.graph, session.profile, options, prepared);
    Trainer trainer({session.training, std::move(prepared)}, *session.backend, request.task.machine.seed,
                    request.task.planning.spill, program_maker(session, request, options, {}), false);
    if (trainer.takes_windows() || !loader->runs_ahead()) loader->leave_out();
    load_weights(trainer, weights, false);
    for (std::int64_t k = 0; k < loader->batches_per_epoch(); ++k)
      if (const Batch& batch = loader->batch(k); batch.samples > 0) report.score.add(trainer.evaluate(batch));
    for (const Tier tier : kTiers) {
      report.predicted_peaks[tier] = trainer.predicted_peak_bytes(tier);
      report.measured_peaks[tier] = trainer.measured_peak_bytes(tier);
    }
  } catch (const BudgetError& error) {
    report.row = row_of(options, error.refusal());
    report.refused = advised(session, request.task, options, error.refusal());
  }
  return report;
}

}  // namespace outsize
