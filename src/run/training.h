#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/safetensors.h"
#include "data/batch.h"
#include "run/prepare.h"

namespace outsize {

enum class Optimizer : std::uint8_t { sgd, adam, adamw };

// How parameters are updated, as by PyTorch's torch.optim.SGD, Adam and AdamW.
struct TrainingOptions {
  Optimizer optimizer = Optimizer::sgd;
  double momentum = 0.9;    // of sgd
  bool nesterov = false;    // of sgd with momentum
  double weight_decay = 0;  // adamw: decoupled
  double beta1 = 0.9;       // of adam and adamw, as beta2 and eps
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip_norm = 0;    // gradients are scaled down to this norm, taken over all of them; 0: they are not
  bool gradients = false;  // the gradients of all parameters and of x can be read after a step
};

// A training step as a graph: forward, backward and updates, with the values a training loop feeds and reads.
struct TrainingGraph {
  Graph graph;
  ValueId x;                                           // input: the samples
  ValueId y;                                           // input: their labels or targets
  ValueId loss;                                        // output [1]
  ValueId loss_gradient;                               // input [1] that seeds backward
  ValueId learning_rate;                               // input [1]
  ValueId step;                                        // input i32[1], counts from 1; where the optimizer needs it
  ValueId random_key;                                  // input i32[4], where the graph draws random numbers
  std::vector<std::pair<ValueId, ValueId>> gradients;  // parameter or x → its gradient, where asked for

  BatchSpec batch_spec() const;
};

// fuse → differentiate → updates → verify. `forward` has the inputs "x" and "labels" or "target", perhaps "random_key", and one
// output, the loss. A parameter's momentum is the state "<parameter>.momentum", its moments under Adam are "<parameter>.adam_m" and
// "<parameter>.adam_v". Throws UserError when the graph is of another form or the options contradict each other.
TrainingGraph make_training_graph(const Graph& forward, const TrainingOptions& options);

// Runs training steps: owns the executor, and the persistent values through it.
class Trainer {
 public:
  // Parameters and states are filled as the graph says, from a generator keyed by `seed` and the value's name, so that neither
  // order nor plan matters. `backend` must outlive the trainer.
  Trainer(TrainingGraph training, Prepared prepared, Backend& backend, std::uint64_t seed, const std::string& spill_directory = {});
  // The same in the memory of a run that has other programs too.
  Trainer(TrainingGraph training, Prepared prepared, Backend& backend, std::uint64_t seed, std::shared_ptr<Memory> memory);

  // One step on `batch`; returns its loss. The graph's random key is (seed, number of steps before this one), low halves first.
  double step(const Batch& batch, double learning_rate);
  // How long the last step took, without writing its batch.
  double step_seconds() const { return step_seconds_; }
  std::int64_t measured_peak_bytes() const { return executor_->measured_peak_bytes(); }

  // Takes parameters and states from `file`. Every parameter must be there with its shape; a state that is not keeps its value.
  // The number of the step goes on from the file's, if it has one.
  // Returns the names of tensors that the model has not. Throws UserError naming file and tensor.
  std::vector<std::string> load(const SafetensorsFile& file);
  // Steps made, those before a resumption included.
  std::int64_t steps() const { return steps_; }
  // Writes parameters and states under their names, and the number of steps made as "training.steps".
  void save(const std::string& path) const;
  // Writes the last step's gradients as "grad.<name>" and `losses` as a float64 array "losses".
  void save_gradients(const std::string& path, const std::vector<double>& losses) const;

  // SHA-256 of all parameters' (all states') elements in the order of their names.
  std::string parameters_sha256() const { return sha256_of(Role::parameter); }
  std::string states_sha256() const { return sha256_of(Role::state); }

  const TrainingGraph& training() const { return training_; }
  const Prepared& prepared() const { return prepared_; }

 private:
  void initialise();
  static ExecutorOptions executor_options(const std::string& spill_directory);
  std::vector<ValueId> persistent(Role role) const;
  std::vector<std::byte> read(ValueId value) const;
  std::string sha256_of(Role role) const;

  TrainingGraph training_;
  Prepared prepared_;
  std::unique_ptr<Executor> executor_;
  std::uint64_t seed_ = 0;
  std::int64_t steps_ = 0;  // made so far
  double step_seconds_ = 0;
};

}  // namespace outsize
