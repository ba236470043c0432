#include "training_run.h"

#include <fmt/ranges.h>

#include <cmath>
#include <csignal>
#include <cstring>

#include "base/bytes.h"
#include "table.h"

namespace outsize::cli {
namespace {

// The signal that asked the run to end, or 0.
volatile std::sig_atomic_t stop_signal = 0;

// While it lives, SIGINT and SIGTERM end the run after the step that is being made; a second one ends the process.
class StopOnSignal {
 public:
  StopOnSignal() {
    stop_signal = 0;
    struct sigaction action {};
    action.sa_handler = [](int number) { stop_signal = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &before_[0]);
    ::sigaction(SIGTERM, &action, &before_[1]);
  }
  ~StopOnSignal() {
    ::sigaction(SIGINT, &before_[0], nullptr);
    ::sigaction(SIGTERM, &before_[1], nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction before_[2];
};

// Everything that the steps depend on besides the model and the seed: a checkpoint is of a run with the same.
std::string settings_of(const TrainFlags& flags, const Loader& loader, std::int64_t steps) {
  const TrainingOptions& training = flags.training;
  const LearningRate& rate = flags.learning_rate;
  std::string text = fmt::format("data {}, shuffle {}, fit {}, augment {}", loader.dataset().name(), flags.shuffle, flags.fit,
                                 flags.augment.empty() ? "none" : fmt::format("{}", fmt::join(flags.augment, ",")));
  text += fmt::format(", optimizer {} momentum {} nesterov {} weight-decay {} betas {} {} eps {} clip-norm {}",
                      static_cast<int>(training.optimizer), training.momentum, training.nesterov, training.weight_decay,
                      training.beta1, training.beta2, training.eps, training.clip_norm);
  text += fmt::format(", lr {} {} warm-up {} every {} factor {}", rate.base, flags.schedule, rate.warm_up, rate.every, rate.factor);
  if (rate.kind == LearningRate::Kind::cosine) text += fmt::format(" over {}", steps);
  return text;
}

}  // namespace

Log::Log(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) user_error("{}: cannot be written: {}", path, std::strerror(errno));
}

void Log::write(const nlohmann::ordered_json& object) {
  if (!file_) return;
  const std::string line = object.dump() + "\n";
  if (std::fputs(line.c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0)
    user_error("{}: cannot be written: {}", path_, std::strerror(errno));
}

TrainingRun::TrainingRun(Session& session, const TrainFlags& flags, Trainer& trainer, Evaluator* evaluator, Loader& loader,
                         Loader* eval_loader, std::int64_t steps)
    : flags_(flags),
      trainer_(trainer),
      evaluator_(evaluator),
      loader_(loader),
      eval_loader_(eval_loader),
      steps_(steps),
      log_(flags.log) {
  state_.model = session.describe();
  state_.settings = settings_of(flags, loader, steps);
  state_.backend = std::string(session.backend->name());
  state_.seed = flags.common.seed;
  state_.plan = print_plan(session.training.graph, trainer.prepared().plan);
  state_.kernels = kernel_table(session.training.graph, trainer.prepared().program, *session.backend);
}

void TrainingRun::resume() {
  const Checkpoint found = find_checkpoint(flags_.checkpoint);
  expect_same_run(found.state, state_, flags_.checkpoint);
  trainer_.load(SafetensorsFile(found.weights));
  if (trainer_.steps() != found.state.step)
    user_error("{}: is of step {}, but its description says {}", found.weights, trainer_.steps(), found.state.step);
  if (found.state.kernels != state_.kernels)
    fmt::print(stderr, "outsize: {}: some kernels are not those of the checkpoint; results may differ in the last bits\n",
               flags_.checkpoint);
  loader_.seek(trainer_.steps());
}

void TrainingRun::run() {
  const StopOnSignal signals;
  Progress progress(!flags_.common.json);
  first_ = trainer_.steps();
  for (std::int64_t i = first_; i < steps_ && stop_signal == 0; ++i) {
    const double rate = flags_.learning_rate.at(i);
    const double loss = trainer_.step(loader_.batch(i), rate);
    if (!std::isfinite(loss)) {
      progress.clear();
      refuse(loss, i + 1);
    }
    losses.values.push_back(loss);
    losses.seconds.push_back(trainer_.step_seconds());
    log_.write({{"step", i + 1}, {"loss", loss}, {"learning_rate", rate}, {"seconds", trainer_.step_seconds()}});
    const bool last = i + 1 == steps_ || stop_signal != 0;
    if (eval_loader_ && (last || (flags_.eval_every > 0 && (i + 1) % flags_.eval_every == 0))) evaluate(i + 1);
    if (!flags_.checkpoint.empty() && (last || (flags_.checkpoint_every > 0 && (i + 1) % flags_.checkpoint_every == 0)))
      save_checkpoint();
    show(progress, i, loss);
  }
  progress.clear();
  if (losses.values.empty()) user_error("there is nothing left to do: {} of {} steps are made", first_, steps_);
  if (stop_signal != 0)
    fmt::print(stderr, "outsize: stopped by {} after step {} of {}{}\n", stop_signal == SIGINT ? "SIGINT" : "SIGTERM",
               trainer_.steps(), steps_,
               flags_.checkpoint.empty() ? "; without --checkpoint it cannot go on" : "; the same command with --resume goes on");
}

void TrainingRun::refuse(double loss, std::int64_t step) const {
  const std::string left = flags_.checkpoint.empty() || saved_ == 0
                               ? std::string("nothing was saved")
                               : fmt::format("the checkpoint of step {} in {} is whole", saved_, flags_.checkpoint);
  user_error(
      "the loss is {} at step {}; {}. A smaller --lr, --warm-up or --clip-norm may help, if the data holds no such number itself",
      loss, step, left);
}

void TrainingRun::evaluate(std::int64_t step) {
  Evaluation found;
  for (std::int64_t k = 0; k < eval_loader_->batches_per_epoch(); ++k) found.add(evaluator_->run(eval_loader_->batch(k)));
  evaluation = found;
  nlohmann::ordered_json object{{"step", step}, {"eval_loss", found.loss}, {"eval_samples", found.samples}};
  if (found.rows > 0) object["eval_accuracy"] = found.accuracy();
  if (found.rows > 0 && evaluator_->evaluation().correct5) object["eval_accuracy5"] = found.accuracy5();
  log_.write(object);
}

void TrainingRun::save_checkpoint() {
  state_.step = trainer_.steps();
  write_checkpoint(flags_.checkpoint, state_, trainer_);
  saved_ = state_.step;
}

void TrainingRun::show(Progress& progress, std::int64_t i, double loss) const {
  const double left = losses.recent_seconds() * static_cast<double>(steps_ - i - 1);
  std::string text = fmt::format("step {}/{}  loss {:.4f}", i + 1, steps_, loss);
  if (evaluation) text += fmt::format("  eval {:.4f}", evaluation->loss);
  if (evaluation && evaluation->rows > 0) text += fmt::format(" ({:.1f} %)", 100 * evaluation->accuracy());
  progress.show(text + fmt::format("  {}/step  peak {}  {} left", format_seconds(losses.recent_seconds()),
                                   format_bytes(trainer_.prepared().program.peak_bytes[0]), format_seconds(left)));
}

}  // namespace outsize::cli
