#include "training_run.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>

#include "base/bytes.h"
#include "base/say.h"
#include "command.h"
#include "table.h"

namespace outsize::cli {
namespace {

// The signal that asked the run to end, or 0.
volatile std::sig_atomic_t stop_signal = 0;

// When it came, in whole and parts of seconds.
volatile std::sig_atomic_t stop_second = 0, stop_nanosecond = 0;

// `timeout` sends its signal twice, to the process and to its group: within a second they are one.
void note_signal(int number) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto second = static_cast<std::sig_atomic_t>(now.tv_sec), nanosecond = static_cast<std::sig_atomic_t>(now.tv_nsec);
  if (stop_signal == 0) {
    stop_second = second;
    stop_nanosecond = nanosecond;
    stop_signal = number;
    return;
  }
  if (second - stop_second < 1 || (second - stop_second == 1 && nanosecond < stop_nanosecond)) return;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// While it lives, SIGINT, SIGTERM and SIGHUP (the terminal is gone) end the run after the step that is being made; another one
// later ends the process. SIGHUP that was ignored before, as by `nohup`, still is. A pipe that nobody reads any more ends nothing.
class StopOnSignal {
 public:
  StopOnSignal() {
    stop_signal = 0;
    struct sigaction stop {
    }, ignore{};
    stop.sa_handler = note_signal;
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &stop, &interrupt_);
    ::sigaction(SIGTERM, &stop, &terminate_);
    ::sigaction(SIGHUP, nullptr, &hang_up_);
    if (hang_up_.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &stop, nullptr);
    ::sigaction(SIGPIPE, &ignore, &pipe_);
  }
  ~StopOnSignal() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
    ::sigaction(SIGHUP, &hang_up_, nullptr);
    ::sigaction(SIGPIPE, &pipe_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_, terminate_, hang_up_, pipe_;  // as they were before
};

std::string_view name_of_signal(int number) { return number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : "SIGTERM"; }

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
RunState::Settings settings_of(const TrainFlags& flags, const Loader& loader, const Loader* eval_loader, std::int64_t steps) {
  const TrainingOptions& training = flags.training;
  const LearningRate& rate = flags.learning_rate;
  RunState::Settings settings{
      {"--data", loader.dataset().name()},
      {"--shuffle", flags.shuffle},
      {"--fit", flags.fit},
      {"--augment", flags.augment.empty() ? "none" : fmt::format("{}", fmt::join(flags.augment, ","))},
      {"--accumulate", fmt::format("{}", flags.accumulate)},
      {"--optimizer", std::string(name_of(training.optimizer))},
      {"--weight-decay", fmt::format("{}", training.weight_decay)},
      {"--clip-norm", fmt::format("{}", training.clip_norm)},
      {"--lr", fmt::format("{}", rate.base)},
      {"--schedule", flags.schedule},
      {"--warm-up", fmt::format("{}", rate.warm_up)},
      {"--patience", fmt::format("{}", flags.patience)},
      {"--dropout", flags.model.options.dropout < 0 ? "as published" : fmt::format("{}", flags.model.options.dropout)},
      {"--label-smoothing", fmt::format("{}", flags.model.options.label_smoothing)},
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
  if (flags.patience > 0) add("--eval-every", flags.eval_every);
  if (flags.checkpoint.empty()) return settings;  // which nobody will compare
  add("content of --data", content_of(loader.dataset()));
  if (flags.patience > 0 && eval_loader) add("content of --eval-data", content_of(eval_loader->dataset()));
  return settings;
}

// What decides a plan besides the graph and the profile. A budget is what was asked for: what is free changes from run to run.
RunState::Settings request_of(const Session& session, const PlanFlags& flags) {
  const auto given = [](const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; };
  return {{"planner", session.planner},
          {"--memory", given(flags.memory, "what is free")},
          {"--host-memory", given(flags.host_memory, "without limit")},
          {"--spill", flags.spill.empty() ? "not given" : "given"},
          {"--spill-limit", given(flags.spill_limit, "without limit")}};
}

// Lines that a run prints into a pipe, unless it is told how often.
constexpr std::int64_t kLines = 20;

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

RunState describe_run(const Session& session, const TrainFlags& flags, const Loader& loader, const Loader* eval_loader,
                      std::int64_t steps) {
  RunState state;
  state.model = session.describe();
  state.settings = settings_of(flags, loader, eval_loader, steps);
  state.request = request_of(session, flags.plan);
  state.backend = std::string(session.backend->name());
  state.seed = flags.common.seed;
  state.threads = session.threads;
  return state;
}

std::optional<Checkpoint> find_start(const TrainFlags& flags, const RunState& now) {
  const bool there = !flags.checkpoint.empty() && has_checkpoints(flags.checkpoint);
  if (!flags.resume && there)
    user_error("--checkpoint: {} holds checkpoints of another run; give --resume to go on with it, or another directory",
               flags.checkpoint);
  if (flags.resume && !there) say("--resume: {} holds no checkpoint; the run begins at its first step", flags.checkpoint);
  if (!there) return std::nullopt;
  Checkpoint found = find_checkpoint(flags.checkpoint);
  expect_same_run(found.state, now, flags.checkpoint);
  return found;
}

TrainingRun::TrainingRun(const TrainFlags& flags, RunState state, Trainer& trainer, Loader& loader, Loader* eval_loader,
                         std::int64_t steps)
    : flags_(flags),
      trainer_(trainer),
      loader_(loader),
      eval_loader_(eval_loader),
      steps_(steps),
      state_(std::move(state)),
      log_(flags.log) {
  state_.begun = trainer.steps();
}

void TrainingRun::resume(const Checkpoint& from) {
  const RunState& then = from.state;
  trainer_.load(SafetensorsFile(from.weights));
  if (trainer_.steps() != then.begun + then.step)
    user_error("{}: is of step {}, but its description says {}", from.weights, trainer_.steps(), then.step);
  if (!from.passed_over.empty()) say("passed over: {}", from.passed_over);
  if (!flags_.common.json) say("goes on after step {}", then.step);
  if (!same_kernels(then.kernels, state_.kernels) || then.threads != state_.threads)
    say("{}: {} those of the checkpoint; results may differ in the last bits", flags_.checkpoint,
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
  const std::int64_t batches = loader_.batches_per_epoch(), accumulate = flags_.accumulate;
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
                    : fmt::format("the checkpoint of step {} in {} is whole", saved_, flags_.checkpoint);
}

void TrainingRun::run() {
  const StopOnSignal signals;
  Progress progress(!flags_.common.json);
  first_ = steps_made();
  const bool saves = !flags_.checkpoint.empty();
  const bool exhausted = flags_.patience > 0 && state_.stale >= flags_.patience;
  if (first_ >= steps_ || exhausted) {
    // A command that is repeated until it succeeds has succeeded.
    say("there is nothing left to do: {} of {} steps are made{}", first_, steps_,
        exhausted ? fmt::format(", and {} evaluations were no better than that of step {}", state_.stale, state_.best_step)
                  : std::string());
    if (eval_loader_) evaluate(first_);
    return;
  }
  // A run that is killed before its first checkpoint would have none.
  if (saves && saved_ < 0) save_checkpoint();
  for (std::int64_t i = first_; i < steps_ && stopped_by.empty(); ++i) {
    const double rate = flags_.learning_rate.at(i);
    const double loss = make_step(i, rate);
    const std::int64_t made = i + 1;
    if (!std::isfinite(loss)) {
      progress.clear();
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
    signal = stop_signal;
    if (signal != 0) stopped_by = name_of_signal(signal);
    const bool due = flags_.eval_every > 0 && made % flags_.eval_every == 0;
    const bool last = made == steps_ || !stopped_by.empty();
    if (eval_loader_ && (due || last)) evaluate(made);
    if (due) note_best(made);
    if (flags_.patience > 0 && state_.stale >= flags_.patience && stopped_by.empty()) stopped_by = "patience";
    if (saves && (last || !stopped_by.empty() || (flags_.checkpoint_every > 0 && made % flags_.checkpoint_every == 0)))
      save_checkpoint();
    show(progress, made, loss);
  }
  progress.clear();
  say_why_it_stopped();
  if (const std::string failure = log_failure(); !failure.empty()) say("{}", failure);
}

int TrainingRun::status() const {
  constexpr int kSignalled = 128;  // as shells have it
  if (signal != 0) return kSignalled + signal;
  return log_failure().empty() ? kDone : kBadInput;
}

void TrainingRun::say_why_it_stopped() const {
  if (stopped_by == "patience")
    say("stopped after step {} of {}: {} evaluations were no better than that of step {} (loss {:.6g})", steps_made(), steps_,
        state_.stale, state_.best_step, state_.best_loss);
  else if (!stopped_by.empty())
    say("stopped by {} after step {} of {}{}", stopped_by, steps_made(), steps_,
        flags_.checkpoint.empty() ? "; without --checkpoint it cannot go on" : "; the same command with --resume goes on");
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
  if (flags_.patience > 0 && !flags_.checkpoint.empty()) save_best(flags_.checkpoint, trainer_);
}

void TrainingRun::save_checkpoint() {
  state_.step = steps_made();
  state_.plans = trainer_.plans();
  state_.log_bytes = log_.bytes();
  write_checkpoint(flags_.checkpoint, state_, trainer_);
  saved_ = state_.step;
}

void TrainingRun::show(Progress& progress, std::int64_t made, double loss) {
  if (recent_.size() == Losses::kRecent) recent_.erase(recent_.begin());
  recent_.push_back(trainer_.score());
  since_line_.add(trainer_.score());
  const std::int64_t every = flags_.print_every > 0 ? flags_.print_every : std::max<std::int64_t>(1, (steps_ - first_) / kLines);
  const bool line = !progress.active() && !flags_.common.json && (made % every == 0 || made == steps_);
  if (!progress.active() && !line) return;

  Score recent;
  for (const Score& score : recent_) recent.add(score);
  const double seconds = losses.recent_seconds();
  const Score& shown = line ? since_line_ : recent;
  std::string text =
      fmt::format("step {:>{}}/{}  loss {:.4f}", made, fmt::formatted_size("{}", steps_), steps_, line ? shown.loss : loss);
  if (shown.rows > 0) text += fmt::format(" ({:.1f} %)", 100 * shown.accuracy());
  if (evaluation) text += fmt::format("  eval {:.4f}", evaluation->loss);
  if (evaluation && evaluation->rows > 0) text += fmt::format(" ({:.1f} %)", 100 * evaluation->accuracy());
  text += fmt::format("  {}/step  {}  peak {}", format_seconds(seconds),
                      format_rate(static_cast<double>(recent.samples) / losses.recent_total()),
                      format_bytes(trainer_.predicted_peak_bytes()));
  if (made < steps_) text += fmt::format("  {} left", format_seconds(seconds * static_cast<double>(steps_ - made)));
  if (!line) return progress.show(text);
  write_to_stderr(text + "\n");
  since_line_ = {};
}

}  // namespace outsize::cli
