#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"
#include "outsize/training.h"

namespace outsize {

// What a program of a run does. A step is `whole`, or takes several batches: `first`, any number of `more`, `last`.
enum class StepKind : std::uint8_t {
  whole,     // forward, backward, update
  first,     // forward and backward; the gradients begin a sum
  more,      // forward and backward; the gradients are added to the sum
  last,      // forward and backward; the update takes the sum and the gradients
  evaluate,  // forward as for evaluation: running statistics, no dropout
};

// What messages and checkpoints call a program of a run: "whole [8, 3, 224, 224]".
std::string program_name(StepKind kind, const Dims& x_shape);

// A step as a graph, with the values that a training loop feeds and reads; those that the kind has no use for are invalid.
struct StepGraph {
  Graph graph;
  StepKind kind = StepKind::whole;
  ValueId x;                  // input: the samples
  ValueId y;                  // input: their labels or targets
  ValueId loss;               // output [1]: the mean over the batch
  ValueId loss_gradient;      // input [1] that seeds backward
  ValueId learning_rate;      // input [1]
  ValueId step;               // input i32[1], counts from 1; where the optimizer needs it
  ValueId random_key;         // input i32[4], where the graph draws random numbers
  ValueId correct;            // output f64[1]: rows whose label has the largest logit; where asked for and there are labels
  ValueId correct5;           // output f64[1]: rows whose label has one of the five largest; where there are more than five classes
  std::int64_t classes = 0;   // labels in [0, classes) count, as correct_count has it
  std::vector<ValueId> sums;  // states "<parameter>.gradient_sum", which hold nothing between steps
  std::vector<ValueId> optimizer_states;               // momenta and moments, which a network's weights may come without
  std::vector<std::pair<ValueId, ValueId>> gradients;  // parameter or x → its gradient, where asked for
};

// fuse → differentiate → sums or updates → verify; for evaluation: evaluation_graph → fuse → verify. `forward` has the inputs "x"
// and "labels" or "target", perhaps "random_key", and one output, the loss. A parameter's momentum is the state
// "<parameter>.momentum", its moments under Adam are "<parameter>.adam_m" and "<parameter>.adam_v". Throws UserError when the
// graph is of another form or the options contradict each other.
StepGraph make_step_graph(const Graph& forward, StepKind kind, const TrainingOptions& options);

// make_step_graph() of a whole step.
inline StepGraph make_training_graph(const Graph& forward, const TrainingOptions& options) {
  return make_step_graph(forward, StepKind::whole, options);
}

}  // namespace outsize
