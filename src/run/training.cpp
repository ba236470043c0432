#include "run/training.h"

#include "graph/autodiff.h"
#include "graph/fusion.h"
#include "graph/opdef.h"
#include "graph/verify.h"

namespace outsize {

namespace {

struct Ends {
  ValueId x, y, loss;
};

// The values that the loop feeds and reads, by the names every model of ours bears.
Ends find_ends(const Graph& graph) {
  Ends ends;
  for (std::int64_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (value.role != Role::input) continue;
    if (value.name == "x")
      ends.x = ValueId(i);
    else if ((value.name == "labels" || value.name == "target") && !ends.y)
      ends.y = ValueId(i);
    else
      user_error("graph {}: input '{}' has no source; a graph to be trained has the inputs x and labels (or target)", graph.name,
                 value.name);
  }
  if (!ends.x || !ends.y) user_error("graph {}: expected the inputs x and labels (or target)", graph.name);
  if (graph.outputs().size() != 1)
    user_error("graph {}: expected one output, the loss; found {}", graph.name, graph.outputs().size());
  ends.loss = graph.outputs()[0];
  const Value& loss = graph.value(ends.loss);
  if (!is_float(loss.type.dtype) || loss.type.elements() != 1 || !loss.producer)
    user_error("graph {}: the output '{}' must be a loss, f32[1] or f64[1] made by an op; found {}", graph.name, loss.name,
               to_string(loss.type));
  const Value& x = graph.value(ends.x);
  const Value& y = graph.value(ends.y);
  if (!is_float(x.type.dtype)) user_error("graph {}: x must be f32 or f64, found {}", graph.name, to_string(x.type));
  if (x.type.shape.rank() == 0 || y.type.shape.rank() == 0 || x.type.shape[0] != y.type.shape[0])
    user_error("graph {}: x {} and {} {} must have equally many samples (the first extent)", graph.name, to_string(x.type), y.name,
               to_string(y.type));
  return ends;
}

const OpDef& required_def(std::string_view kind) {
  const OpDef* def = find_op_def(kind);
  if (!def) internal_error("the op kind '{}' is not registered", kind);
  return *def;
}

void add_updates(TrainingGraph& training, const std::vector<std::pair<ValueId, ValueId>>& gradients,
                 const TrainingOptions& options) {
  Graph& graph = training.graph;
  const OpDef& sgd = required_def("sgd");
  for (const auto& [parameter, gradient] : gradients) {
    const std::string name = graph.value(parameter).name;
    const ValueType type = graph.value(parameter).type;
    if (!training.learning_rate)
      training.learning_rate = graph.add_value("learning_rate", {type.dtype, {1}, Format::plain}, Role::input);
    std::vector<ValueId> inputs{parameter, gradient, training.learning_rate};
    if (options.momentum != 0) inputs.push_back(graph.add_value(name + ".momentum", type, Role::state));
    graph.add_op(name + ".sgd", sgd, std::move(inputs), {{"momentum", options.momentum}, {"weight_decay", options.weight_decay}},
                 {}, Phase::update);
  }
}

}  // namespace

BatchSpec TrainingGraph::batch_spec() const {
  const ValueType& x_type = graph.value(x).type;
  const ValueType& y_type = graph.value(y).type;
  BatchSpec spec{x_type.dtype, x_type.shape, y_type.dtype, y_type.shape, 0};
  if (is_float(y_type.dtype)) return spec;
  // Labels index the columns of what they stand beside.
  for (OpId reader : graph.value(y).consumers)
    for (ValueId input : graph.op(reader).inputs) {
      const ValueType& type = graph.value(input).type;
      if (is_float(type.dtype) && type.shape.rank() == 2) spec.classes = type.shape[1];
    }
  if (spec.classes == 0) user_error("graph {}: no op reads '{}' beside logits [N, classes]", graph.name, graph.value(y).name);
  return spec;
}

TrainingGraph make_training_graph(const Graph& forward, const TrainingOptions& options) {
  find_ends(forward);  // before fusion: messages speak of the user's graph
  TrainingGraph training;
  training.graph = fuse(forward);
  const Ends ends = find_ends(training.graph);
  training.x = ends.x;
  training.y = ends.y;
  training.loss = ends.loss;

  AutodiffOptions autodiff{.of = {ends.loss}, .with_respect = {}};
  if (options.gradients) autodiff.with_respect.push_back(ends.x);
  const AutodiffResult result = differentiate(training.graph, autodiff);
  training.loss_gradient = result.seeds[0];

  std::vector<std::pair<ValueId, ValueId>> of_parameters;
  for (const auto& [subject, gradient] : result.gradients)
    if (training.graph.value(subject).role == Role::parameter) of_parameters.emplace_back(subject, gradient);
  if (of_parameters.empty()) user_error("graph {}: the loss depends on no parameter; there is nothing to train", forward.name);
  if (options.gradients) {
    training.gradients = result.gradients;
    for (const auto& [subject, gradient] : result.gradients) training.graph.add_output(gradient);
  }
  add_updates(training, of_parameters, options);
  verify_graph(training.graph);
  return training;
}

}  // namespace outsize
