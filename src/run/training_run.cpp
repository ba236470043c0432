#include "run/training_run.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/bytes.h"
#include "base/say.h"

namespace outsize {
namespace {

std::string_view name_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd: return "sgd";
    case Optimizer::adam: return "adam";
    case Optimizer::adamw: return "adamw";
  }
  return "?";
}

std::string content_of(const Dataset& dataset) {
  const std::uint32_t fingerprint = dataset.fingerprint();
  return fingerprint == 0 ? "made up" : fmt::format("{} samples with checksum {:08x}", dataset.size(), fingerprint);
}

// Everything that the steps depend on besides the model and the seed: a checkpoint is of a run with the same.
RunState::Settings settings_of(const TrainingRequest& request, const Loader& loader, const Loader* eval_loader,
                               std::int64_t steps) {
  const TrainingOptions& training = request.task.training;
  const LearningRate& rate = request.learning_rate;
  RunState::Settings settings{
      {"--data", loader.dataset().name()},
      {"--shuffle", request.shuffle},
      {"--fit", request.fit},
      {"--augment", request.augment.empty() ? "none" : fmt::format("{}", fmt::join(request.augment, ","))},
      {"--accumulate", fmt::format("{}", request.accumulate)},
      {"--optimizer", std::string(name_of(training.optimizer))},
      {"--weight-decay", fmt::format("{}", training.weight_decay)},
      {"--clip-norm", fmt::format("{}", training.clip_norm)},
      {"--lr", fmt::format("{}", rate.base)},
      {"--schedule", request.schedule},
      {"--warm-up", fmt::format("{}", rate.warm_up)},
      {"--patience", fmt::format("{}", request.patience)},
      {"--dropout",
       request.task.model.options.dropout < 0 ? "as published" : fmt::format("{}", request.task.model.options.dropout)},
      {"--label-smoothing", fmt::format("{}", request.task.model.options.label_smoothing)},
  };
  const auto add = [&](const char* flag, const auto& value) { settings.emplace_back(flag, fmt::format("{}", value)); };
  if (training.optimizer == Optimizer::sgd) {
    add("--momentum", training.momentum);
    add("--nesterov", training.nesterov ? "on" : "off");
  } else {
    add("--beta1", training.beta1);
    add("--beta2", training.beta2);
    add("--eps", training.eps);
  }
  if (rate.kind == LearningRate::Kind::step) {
    add("--schedule-every", rate.every);
    add("--schedule-factor", rate.factor);
  }
  if (rate.kind == LearningRate::Kind::cosine) add("number of steps", steps);
  if (request.patience > 0) add("--eval-every", request.eval_every);
  if (request.checkpoint.empty()) return settings;  // which nobody will compare
  add("content of --data", content_of(loader.dataset()));
  if (request.patience > 0 && eval_loader) add("content of --eval-data", content_of(eval_loader->dataset()));
  return settings;
}

// What decides a plan besides the graph and the profile. A budget is what was asked for: what is free changes from run to run.
RunState::Settings request_of(const Session& session, const PlanningRequest& request) {
  const auto given = [](const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; };
  return {{"planner", session.planner},
          {"--memory", given(request.memory, "what is free")},
          {"--host-memory", given(request.host_memory, "without limit")},
          {"--spill", request.spill.empty() ? "not given" : "given"},
          {"--spill-limit", given(request.spill_limit, "without limit")}};
}

}  // namespace

Log::Log(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) user_error("{}: cannot be written: {}", path, std::strerror(errno));
}

Log::~Log() {
  if (file_ >= 0) ::close(file_);
}

void Log::write(const nlohmann::ordered_json& object) {
  if (file_ < 0) return;
  const std::string line = object.dump() + "\n";
  const std::int64_t before = bytes();
  ::ssize_t put = -1;
  do put = ::write(file_, line.data(), line.size());
  while (put < 0 && errno == EINTR);
  if (put == static_cast<::ssize_t>(line.size())) return;
  why_ = put < 0 ? std::strerror(errno) : "there is no room for a whole line";
  // No half line: the next would go on in it.
  if (put > 0 && ::ftruncate(file_, before) != 0) why_ += ", and a line is broken";
  if (lost_++ == 0) say("{}: cannot be written: {}; the run goes on, and lines of its log are lost", path_, why_);
}

std::string Log::failure() const {
  if (lost_ == 0) return {};
  return fmt::format("{}: {} line{} could not be written: {}", path_, lost_, lost_ == 1 ? "" : "s", why_);
}

std::int64_t Log::bytes() const {
  struct stat found {};
  return file_ >= 0 && ::fstat(file_, &found) == 0 ? found.st_size : 0;
}

void Log::go_back_to(std::int64_t bytes, std::int64_t step) {
  if (file_ < 0 || this->bytes() <= bytes) return;
  std::ifstream file(path_);
  std::string line;
  // Another log than that of the run may be longer too, but its lines do not begin there, or with other steps.
  if (bytes > 0 && (!file.seekg(bytes - 1) || file.get() != '\n')) return;
  std::getline(file, line);
  const nlohmann::json first = nlohmann::json::parse(line, nullptr, false);
  const bool cut_off = first.is_discarded() && file.eof();  // the process was killed while it wrote
  const bool later = first.is_object() && first.contains("step") && first["step"].is_number() && first["step"] == step + 1;
  if ((cut_off || later) && ::ftruncate(file_, bytes) != 0) user_error("{}: cannot be written: {}", path_, std::strerror(errno));
}

std::int64_t steps_per_epoch(const Loader& loader, std::int64_t accumulate) {
  return (loader.batches_per_epoch() + accumulate - 1) / accumulate;
}

RunState describe_run(const Session& session, const TrainingRequest& request, const Loader& loader, const Loader* eval_loader,
                      std::int64_t steps) {
  RunState state;
  state.model = session.describe();
  state.settings = settings_of(request, loader, eval_loader, steps);
  state.request = request_of(session, request.task.planning);
  state.backend = std::string(session.backend->name());
  state.seed = request.task.machine.seed;
  state.threads = session.threads;
  return state;
}

std::optional<Checkpoint> find_start(const TrainingRequest& request, const RunState& now) {
  const bool there = !request.checkpoint.empty() && has_checkpoints(request.checkpoint);
  if (!request.resume && there)
    user_error("--checkpoint: {} holds checkpoints of another run; give --resume to go on with it, or another directory",
               request.checkpoint);
  if (request.resume && !there) say("--resume: {} holds no checkpoint; the run begins at its first step", request.checkpoint);
  if (!there) return std::nullopt;
  Checkpoint found = find_checkpoint(request.checkpoint);
  expect_same_run(found.state, now, request.checkpoint);
  return found;
}

TrainingRun::TrainingRun(const TrainingRequest& request, const Observer& observer, RunState state, Trainer& trainer, Loader& loader,
                         Loader* eval_loader, std::int64_t steps)
    : request_(request),
      observer_(observer),
      trainer_(trainer),
      loader_(loader),
      eval_loader_(eval_loader),
      steps_(steps),
      state_(std::move(state)),
      log_(request.log) {
  state_.begun = trainer.steps();
}

void TrainingRun::resume(const Checkpoint& from) {
  const RunState& then = from.state;
  trainer_.load(SafetensorsFile(from.weights));
  if (trainer_.steps() != then.begun + then.step)
    user_error("{}: is of step {}, but its description says {}", from.weights, trainer_.steps(), then.step);
  if (!from.passed_over.empty()) say("passed over: {}", from.passed_over);
  if (!observer_.quiet) say("goes on after step {}", then.step);
  if (!same_kernels(then.kernels, state_.kernels) || then.threads != state_.threads)
    say("{}: {} those of the checkpoint; results may differ in the last bits", request_.checkpoint,
        then.threads != state_.threads ? "the threads are not" : "some kernels are not");
  state_.begun = then.begun;
  state_.best_loss = then.best_loss;
  state_.best_step = then.best_step;
  state_.stale = then.stale;
  saved_ = then.step;
  log_.go_back_to(then.log_bytes, then.step);
  loader_.seek(batches_of(steps_made()).first);
}

// An epoch's last step takes what is left of it; data without end has none.
TrainingRun::Batches TrainingRun::batches_of(std::int64_t step) const {
  const std::int64_t batches = loader_.batches_per_epoch(), accumulate = request_.accumulate;
  if (batches == 0) return {step * accumulate, accumulate};
  const std::int64_t steps = steps_per_epoch(loader_, accumulate);
  const std::int64_t epoch = step / steps, first = step % steps * accumulate;
  return {epoch * batches + first, std::min(accumulate, batches - first)};
}

double TrainingRun::make_step(std::int64_t step, double rate) {
  const Batches batches = batches_of(step);
  std::int64_t samples = 0;
  for (std::int64_t k = 0; k < batches.count; ++k) samples += loader_.samples_of(batches.first + k);
  const std::int64_t last = batches.first + batches.count - 1;
  for (std::int64_t k = batches.first; k < last; ++k) {
    const Batch& batch = loader_.batch(k);
    within_step(step + 1, [&] { trainer_.accumulate(batch, samples); });
  }
  const Batch& batch = loader_.batch(last);
  return within_step(step + 1, [&] { return trainer_.step(batch, rate, samples); });
}

// A disk or a memory that fails does so in a step.
template <class Part>
auto TrainingRun::within_step(std::int64_t step, Part&& part) const -> decltype(part()) {
  try {
    return part();
  } catch (const UserError& error) {
    user_error("step {}: {}; {}", step, error.what(), what_is_left());
  } catch (const InternalError& error) {
    internal_error("step {}: {}; {}", step, error.what(), what_is_left());
  }
}

std::string TrainingRun::what_is_left() const {
  return saved_ < 0 ? std::string("nothing was saved")
                    : fmt::format("the checkpoint of step {} in {} is whole", saved_, request_.checkpoint);
}

void TrainingRun::run() {
  first_ = steps_made();
  const bool saves = !request_.checkpoint.empty();
  const bool exhausted = request_.patience > 0 && state_.stale >= request_.patience;
  if (first_ >= steps_ || exhausted) {
    // A command that is repeated until it succeeds has succeeded.
    say("there is nothing left to do: {} of {} steps are made{}", first_, steps_,
        exhausted ? fmt::format(", and {} evaluations were no better than that of step {}", state_.stale, state_.best_step)
                  : std::string());
    if (eval_loader_) evaluate(first_);
    return;
  }
  loader_.start();
  if (eval_loader_) eval_loader_->start();
  // A run that is killed before its first checkpoint would have none.
  if (saves && saved_ < 0) save_checkpoint();
  for (std::int64_t i = first_; i < steps_ && stopped_by.empty(); ++i) {
    const double rate = request_.learning_rate.at(i);
    const double loss = make_step(i, rate);
    const std::int64_t made = i + 1;
    if (!std::isfinite(loss)) {
      observer_.show("");
      refuse(loss, made);
    }
    losses.values.push_back(loss);
    losses.seconds.push_back(trainer_.step_seconds());
    losses.samples += trainer_.score().samples;
    nlohmann::ordered_json object{{"step", made}, {"loss", loss}};
    if (trainer_.score().rows > 0) object["accuracy"] = trainer_.score().accuracy();
    object["learning_rate"] = rate;
    object["samples"] = trainer_.score().samples;
    object["seconds"] = trainer_.step_seconds();
    log_.write(object);
    const bool due = request_.eval_every > 0 && made % request_.eval_every == 0;
    const bool last = made == steps_;
    if (eval_loader_ && (due || last)) evaluate(made);
    if (due) note_best(made);
    report(made, loss);
    if (observer_.stop) stopped_by = observer_.stop();
    if (eval_loader_ && !stopped_by.empty() && !due && !last) evaluate(made);
    if (request_.patience > 0 && state_.stale >= request_.patience && stopped_by.empty()) stopped_by = "patience";
    if (saves && (last || !stopped_by.empty() || (request_.checkpoint_every > 0 && made % request_.checkpoint_every == 0)))
      save_checkpoint();
  }
  observer_.show("");
  say_why_it_stopped();
  if (const std::string failure = log_failure(); !failure.empty()) say("{}", failure);
}

void TrainingRun::say_why_it_stopped() const {
  if (stopped_by == "patience")
    say("stopped after step {} of {}: {} evaluations were no better than that of step {} (loss {:.6g})", steps_made(), steps_,
        state_.stale, state_.best_step, state_.best_loss);
  else if (!stopped_by.empty())
    say("stopped by {} after step {} of {}{}", stopped_by, steps_made(), steps_,
        request_.checkpoint.empty() ? "; without --checkpoint it cannot go on" : "; the same command with --resume goes on");
}

void TrainingRun::refuse(double loss, std::int64_t step) const {
  user_error(
      "the loss is {} at step {}; {}. A smaller --lr, --warm-up or --clip-norm may help, if the data holds no such number itself",
      std::isnan(loss) ? "not a number" : "infinite", step, what_is_left());
}

void TrainingRun::evaluate(std::int64_t step) {
  Score found;
  for (std::int64_t k = 0; k < eval_loader_->batches_per_epoch(); ++k)
    if (const Batch& batch = eval_loader_->batch(k); batch.samples > 0)
      found.add(within_step(step, [&] { return trainer_.evaluate(batch); }));
  if (!std::isfinite(found.loss))
    say("evaluation after step {}: the loss is {}; does {} hold such numbers?", step, found.loss, eval_loader_->dataset().name());
  evaluation = found;
  nlohmann::ordered_json object{{"step", step}, {"eval_loss", found.loss}, {"eval_samples", found.samples}};
  if (found.rows > 0) object["eval_accuracy"] = found.accuracy();
  if (found.correct5 > 0) object["eval_accuracy5"] = found.accuracy5();
  log_.write(object);
}

// Only evaluations that --eval-every asks for count: one made because the run was stopped would not be there without the stop.
void TrainingRun::note_best(std::int64_t step) {
  if (!(evaluation->loss < state_.best_loss)) {
    ++state_.stale;
    return;
  }
  state_.best_loss = evaluation->loss;
  state_.best_step = step;
  state_.stale = 0;
  if (request_.patience > 0 && !request_.checkpoint.empty()) save_best(request_.checkpoint, trainer_);
}

void TrainingRun::save_checkpoint() {
  state_.step = steps_made();
  state_.plans = trainer_.plans();
  state_.log_bytes = log_.bytes();
  write_checkpoint(request_.checkpoint, state_, trainer_);
  saved_ = state_.step;
}

void TrainingRun::report(std::int64_t made, double loss) {
  if (recent_.size() == Losses::kRecent) recent_.erase(recent_.begin());
  recent_.push_back(trainer_.score());
  if (!observer_.step) return;
  StepReport step{.step = made, .steps = steps_, .first = first_, .loss = loss, .score = trainer_.score()};
  for (const Score& score : recent_) step.recent.add(score);
  step.evaluation = evaluation;
  step.seconds = losses.recent_seconds();
  step.samples_a_second = static_cast<double>(step.recent.samples) / losses.recent_total();
  step.peak_bytes = trainer_.predicted_peak_bytes();
  observer_.step(step);
}

}  // namespace outsize
