#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/interface.h"
#include "run/trainer.h"

namespace outsize {

// What a run needs, beside its parameters and states, to go on as if it had never stopped. Data and random numbers are functions of
// the seed and the step, so that these two are their whole state.
struct RunState {
  using Settings = std::vector<std::pair<std::string, std::string>>;  // name and value, in the order of messages

  std::string model;  // name and sizes
  Settings settings;  // everything else that the steps depend on: optimizer, schedule, data, precision
  std::string backend;
  std::uint64_t seed = 0;
  std::int64_t step = 0;                                       // steps made by this run
  std::int64_t begun = 0;                                      // steps that the weights it began with had been trained for
  std::int64_t threads = 0;                                    // of the backend
  Settings request;                                            // what the plans were asked for: planner and budgets
  std::map<std::string, std::string> plans;                    // their texts, as of Trainer::plans()
  std::vector<std::string> kernels;                            // "op: implementation", in program order
  double best_loss = std::numeric_limits<double>::infinity();  // of the evaluations so far
  std::int64_t best_step = 0;                                  // where it was
  std::int64_t stale = 0;                                      // evaluations since
  std::int64_t log_bytes = 0;                                  // that the run's log had then
};

// A checkpoint on disk: "checkpoint-<step>.safetensors" and, written after it, "checkpoint-<step>.json", which makes it one.
struct Checkpoint {
  RunState state;
  std::string weights;      // the path of its tensors
  std::string passed_over;  // what is wrong with newer ones, if any
};

// Writes a checkpoint of `trainer` into `directory`, which is made if need be. Each file is written under another name, flushed and
// renamed; the checkpoint before stays until this one is whole, and the older ones are then removed. Throws UserError when it
// cannot be written; what was there before is then still there.
void write_checkpoint(const std::string& directory, const RunState& state, const Trainer& trainer);

// Writes parameters and states to "best.safetensors" in `directory`, with the care of write_checkpoint().
void save_best(const std::string& directory, const Trainer& trainer);

// The use of a directory of checkpoints by one run alone, for as long as this lives. The file "lock" in it is locked and holds the
// run's process id. The system gives up the lock however the process ends; a file that is left behind locks nothing.
class CheckpointLock {
 public:
  // Makes the directory if need be. Throws UserError naming the process where another run is using it, and is still after three
  // seconds. On a file system that knows no locks nothing is locked, which is said.
  explicit CheckpointLock(const std::string& directory);
  // Removes the file, and the directory where it was made for the lock and holds nothing else.
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  std::string directory_;
  std::string path_;
  int file_ = -1;
  bool made_directory_ = false;
};

// Whether a directory is there and has descriptions of checkpoints in it, whole or not.
bool has_checkpoints(const std::string& directory);
// The newest whole checkpoint of a directory. Throws UserError that says what is wrong with those that are not whole, if none is.
Checkpoint find_checkpoint(const std::string& directory);

// Whether two tables of kernels name the same implementations, in whatever order and number they run.
bool same_kernels(std::vector<std::string> a, std::vector<std::string> b);

// The first setting of `now` that is another in `then`, as "--lr is 0.1, but this run's is 0.2"; empty where all are the same.
std::string difference(const RunState::Settings& then, const RunState::Settings& now);

// Throws UserError naming what differs, unless a run of `now` may go on from `then`.
void expect_same_run(const RunState& then, const RunState& now, const std::string& directory);

// Which implementation every kernel of a program is.
std::vector<std::string> kernel_table(const Graph& graph, const Program& program, Backend& backend);

}  // namespace outsize
