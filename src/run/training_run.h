#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "run/checkpoint.h"
#include "run/learning_rate.h"
#include "run/session.h"
#include "run/trainer.h"

namespace outsize {

struct Losses {
  std::vector<double> values;
  std::int64_t samples = 0;     // of all steps
  std::vector<double> seconds;  // of each step

  // The first step also warms caches, so it counts only where there is hardly another.
  double median_seconds() const { return median(seconds.begin() + (seconds.size() > 2 ? 1 : 0)); }
  // Of the last steps: what a line that is shown at every step can afford.
  double recent_seconds() const { return median(seconds.end() - static_cast<std::ptrdiff_t>(std::min(seconds.size(), kRecent))); }
  // Of the same steps, together.
  double recent_total() const {
    return std::accumulate(seconds.end() - static_cast<std::ptrdiff_t>(std::min(seconds.size(), kRecent)), seconds.end(), 1e-9);
  }

  static constexpr std::size_t kRecent = 15;

 private:
  double median(std::vector<double>::const_iterator from) const {
    std::vector<double> sorted(from, seconds.end());
    if (sorted.empty()) return 0;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
};

// JSON objects appended to a file, one a line, as they come; nothing where the path is empty. A run of hours is worth more than its
// log: a line that cannot be written is lost, which is said of the first, and the run goes on.
class Log {
 public:
  // Throws UserError where the file cannot be opened.
  explicit Log(const std::string& path);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(const nlohmann::ordered_json& object);
  // How many lines were lost and why; empty where none was.
  std::string failure() const;
  // The bytes that are in the file; 0 where there is none.
  std::int64_t bytes() const;
  // Takes away what is behind the first `bytes`, if it goes on after `step`: a run that was killed makes those steps again.
  void go_back_to(std::int64_t bytes, std::int64_t step);

 private:
  std::string path_;
  int file_ = -1;
  std::int64_t lost_ = 0;  // lines
  std::string why_;        // the last of them was
};

// What is known of a run before it is planned: all but steps, plans and kernels.
RunState describe_run(const Session& session, const TrainingRequest& request, const Loader& loader, const Loader* eval_loader,
                      std::int64_t steps);

// The newest checkpoint of --checkpoint, where --resume asks for it; nothing where there is none, which is told. Throws UserError
// where it is not of the run `now`, or where a run that is to begin finds checkpoints.
std::optional<Checkpoint> find_start(const TrainingRequest& request, const RunState& now);

// A training run: its steps, evaluations and checkpoints.
class TrainingRun {
 public:
  // `state` describes the run. `eval_loader` may be null. `steps` are this run's: those that the weights it begins with have behind
  // them do not count. All of them but the state must outlive the run.
  TrainingRun(const TrainingRequest& request, const Observer& observer, RunState state, Trainer& trainer, Loader& loader,
              Loader* eval_loader, std::int64_t steps);

  // Goes on from a checkpoint, which must be of this run.
  void resume(const Checkpoint& from);
  // Makes the steps that are left; Observer::stop and --patience end them early. Throws UserError when the loss is not finite.
  void run();

  Losses losses;
  std::optional<Score> evaluation;  // the last
  std::string stopped_by;           // what Observer::stop said, "patience", or empty: all steps were made

  // Steps made by this run, those before a resumption included.
  std::int64_t steps_made() const { return trainer_.steps() - state_.begun; }
  // What is wrong with the log, or empty.
  std::string log_failure() const { return log_.failure(); }
  // Samples of training and of evaluation that could not be read.
  std::int64_t skipped() const { return loader_.skipped() + (eval_loader_ ? eval_loader_->skipped() : 0); }

 private:
  struct Batches {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  Batches batches_of(std::int64_t step) const;
  double make_step(std::int64_t step, double rate);
  // Calls `part`; what it throws gets the step and what is left of the run.
  template <class Part>
  auto within_step(std::int64_t step, Part&& part) const -> decltype(part());
  std::string what_is_left() const;
  [[noreturn]] void refuse(double loss, std::int64_t step) const;
  void evaluate(std::int64_t step);
  void note_best(std::int64_t step);
  void save_checkpoint();
  void report(std::int64_t made, double loss);
  void say_why_it_stopped() const;

  const TrainingRequest& request_;
  const Observer& observer_;
  Trainer& trainer_;
  Loader& loader_;
  Loader* eval_loader_;
  std::int64_t steps_;
  std::int64_t first_ = 0;
  std::int64_t saved_ = -1;  // the step of the last checkpoint
  RunState state_;
  Log log_;
  std::vector<Score> recent_;  // scores of the last steps
};

// How many steps an epoch has: of --accumulate batches each, the last of what is left. 0: the data has no end.
std::int64_t steps_per_epoch(const Loader& loader, std::int64_t accumulate);

}  // namespace outsize
