#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/safetensors.h"
#include "graph/step_graph.h"
#include "outsize/reports.h"
#include "run/executor.h"
#include "search/prepare.h"

namespace outsize {

// What load() found that does not fit, in the order of names. What is missing or misshaped keeps its values.
struct LoadReport {
  std::vector<std::string> missing;     // parameters and states that the file has not, but for the optimizer's states
  std::vector<std::string> misshaped;   // "fc.weight is [1000, 512], the model's [10, 512]"
  std::vector<std::string> unexpected;  // tensors that the model has not
};

// A program of a run, and the graph it is of.
struct StepProgram {
  StepGraph step;
  Prepared prepared;
};

// Runs training steps and evaluations: owns the programs of the run, its memory, and the persistent values in it.
class Trainer {
 public:
  // Makes the program of a kind for samples x of a shape, planned with the run's layout. Throws BudgetError where none fits.
  using Maker = std::function<StepProgram(StepKind kind, const Dims& x_shape, const PersistentLayout& layout)>;

  // `main` is a whole step or the last part of one, so that it has every persistent value of the run; or evaluation, if nothing is
  // to be trained. Those are filled as the graph
  // says, from a generator keyed by `seed` and the value's name, so that neither order nor plan matters. Programs of other kinds
  // and shapes are asked of `maker` when they are first needed. `check_spill`: compare what comes back from lower tiers with what
  // went there, as debug builds always do. `trace`: take the times of all instructions. `backend` must outlive the trainer.
  Trainer(StepProgram main, Backend& backend, std::uint64_t seed, const std::string& spill_directory = {}, Maker maker = {},
          bool check_spill = false, bool trace = false);
  ~Trainer();

  // Whether the first program takes x window by window, so that batches had better leave it out. Programs take either.
  bool takes_windows() const { return main_->executor->takes_windows(main().x); }

  // One step on `batch`, and on those given to accumulate() since the last; returns its loss. The batches of a step together have
  // `samples` samples (0: those of `batch`), and count by theirs. Random numbers are keyed by the seed, the number of steps before
  // this one and the number of batches before this one in the step.
  double step(const Batch& batch, double learning_rate, std::int64_t samples = 0);
  // A part of the next step.
  void accumulate(const Batch& batch, std::int64_t samples);
  // What the last step was found to give, its parts included.
  const Score& score() const { return score_; }
  // How long the last step took, without writing its batches.
  double step_seconds() const { return step_seconds_; }

  // The forward pass alone, as in evaluation. Changes nothing.
  Score evaluate(const Batch& batch);

  // Makes the program of a kind and shape now, and room for it, so that a budget it cannot meet and memory or disk that the machine
  // has not show before the first step.
  void expect(StepKind kind, const Dims& x_shape) { make_room(program(kind, x_shape)); }

  // The highest byte of a tier that any program has touched; and that any program that was run is predicted to.
  std::int64_t measured_peak_bytes(Tier tier = Tier::device) const { return memory_->touched_bytes(tier); }
  std::int64_t predicted_peak_bytes(Tier tier = Tier::device) const { return predicted_peaks_[tier]; }

  // What the arenas of the run take of this machine's memory.
  std::int64_t memory_bytes() const;

  // Takes parameters and states from `file`. Every parameter must be there with its shape; or, where `partial`, at least one. The
  // number of the step goes on from the file's, if it has one. Throws UserError naming the file and all parameters that are missing
  // or have another shape; then nothing is changed. Throws UserError naming the file and the tensor also where one that is taken
  // holds NaN or an infinity; then those before it are taken.
  LoadReport load(const SafetensorsFile& file, bool partial = false);
  // Steps made, those before a resumption included.
  std::int64_t steps() const { return steps_; }
  // Writes parameters and states under their names, and the number of steps made as "training.steps". Throws UserError, and writes
  // nothing, where one of them holds what is not a finite number.
  void save(const std::string& path) const;
  // Writes the last step's gradients as "grad.<name>" and `losses` as a float64 array "losses".
  void save_gradients(const std::string& path, const std::vector<double>& losses) const;

  // All parameters, or all states, of main()'s graph in the order of their names.
  std::vector<ValueId> persistent(Role role) const;
  // A persistent value as it is after the last step.
  std::vector<std::byte> read(ValueId value) const;
  // SHA-256 of all parameters' (all states') elements in the order of their names.
  std::string parameters_sha256() const { return sha256_of(Role::parameter); }
  std::string states_sha256() const { return sha256_of(Role::state); }

  // The plans of the programs it holds, as text, by the programs' names.
  std::map<std::string, std::string> plans() const;

  // Of the last run of the first program, where times are taken.
  const Trace& trace() const { return main_->executor->trace(); }
  const StepGraph& main() const { return main_->program.step; }
  const Prepared& prepared() const { return main_->program.prepared; }

 private:
  struct Entry {
    StepProgram program;
    std::unique_ptr<Executor> executor;  // made when it is to run
    std::int64_t used = 0;               // by the count of uses
  };
  using Key = std::pair<StepKind, std::vector<std::int64_t>>;

  ExecutorOptions executor_options() const;
  void initialise();
  Entry& program(StepKind kind, const Dims& x_shape);
  void make_room(const Entry& entry);
  Entry& ready(Entry& entry);
  void drop_least_used();
  Entry& run(StepKind kind, const Batch& batch, std::int64_t samples, double learning_rate);
  Score score_of(const Entry& entry, const Batch& batch) const;
  std::string sha256_of(Role role) const;

  Backend& backend_;
  Maker maker_;
  std::map<Key, Entry> programs_;
  Entry* main_ = nullptr;
  PersistentLayout layout_;
  std::shared_ptr<Memory> memory_;
  bool check_spill_ = false;
  bool trace_ = false;
  std::uint64_t seed_ = 0;
  std::int64_t steps_ = 0;  // made so far
  std::int64_t parts_ = 0;  // batches accumulated for the next
  std::int64_t uses_ = 0;
  Memory::Sizes predicted_peaks_{};
  Score score_;
  std::map<std::string, std::pair<TensorEntry, std::vector<std::byte>>> gradients_;  // of the last step, by name, where asked for
  double step_seconds_ = 0;
};

}  // namespace outsize
