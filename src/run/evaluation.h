#pragma once

#include <memory>

#include "data/batch.h"
#include "run/prepare.h"

namespace outsize {

// A network's forward pass for evaluation, with the values a loop feeds and reads.
struct EvaluationGraph {
  Graph graph;
  ValueId x;                 // input: the samples
  ValueId y;                 // input: their labels or targets
  ValueId loss;              // output [1]: the mean over the batch
  ValueId correct;           // output f64[1]: rows whose label has the largest logit; none where there are no labels
  ValueId correct5;          // output f64[1]: … is among the five largest; none where there are fewer than six classes
  std::int64_t classes = 0;  // labels in [0, classes) count, as correct_count has it
};

// evaluation_graph → counts of correct rows → fuse → verify. `forward` is of the form that make_training_graph takes.
EvaluationGraph make_evaluation_graph(const Graph& forward);

// What evaluating some batches found.
struct Evaluation {
  double loss = 0;  // the mean over all labels that count, or all samples
  std::int64_t samples = 0;
  std::int64_t rows = 0;  // labels that count: as many as samples, or as positions
  double correct = 0;     // of those
  double correct5 = 0;

  // Adds what a batch found.
  void add(const Evaluation& batch);
  double accuracy() const { return rows > 0 ? correct / static_cast<double>(rows) : 0; }
  double accuracy5() const { return rows > 0 ? correct5 / static_cast<double>(rows) : 0; }
};

// Evaluates batches with the persistent values of a training run, in its memory.
class Evaluator {
 public:
  // `prepared` was made with the run's layout; `memory` is large enough for it. `backend` must outlive the evaluator.
  Evaluator(EvaluationGraph evaluation, Prepared prepared, Backend& backend, std::shared_ptr<Memory> memory);

  // One batch of the graph's size.
  Evaluation run(const Batch& batch);

  const EvaluationGraph& evaluation() const { return evaluation_; }
  const Prepared& prepared() const { return prepared_; }

 private:
  double read(ValueId value) const;

  EvaluationGraph evaluation_;
  Prepared prepared_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace outsize
