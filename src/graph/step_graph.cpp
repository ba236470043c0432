#include "graph/step_graph.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "graph/autodiff.h"
#include "graph/evaluation.h"
#include "graph/fusion.h"
#include "graph/opdef.h"
#include "graph/planar.h"
#include "graph/verify.h"

namespace outsize {

namespace {

struct Ends {
  ValueId x, y, loss, random_key;
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
    else if (value.name == "random_key")
      ends.random_key = ValueId(i);
    else
      user_error("graph {}: input '{}' has no source; a graph to be trained has the inputs x, labels (or target) and random_key",
                 graph.name, value.name);
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
  if (!is_float(x.type.dtype) && x.type.dtype != DType::i32)
    user_error("graph {}: x must be f32 or f64, or i32 where it holds tokens; found {}", graph.name, to_string(x.type));
  if (!is_float(y.type.dtype) && y.type.dtype != DType::i32)
    user_error("graph {}: {} must be i32, or f32 or f64 where it holds targets; found {}", graph.name, y.name, to_string(y.type));
  if (x.type.shape.rank() == 0 || y.type.shape.rank() == 0 || x.type.shape[0] != y.type.shape[0])
    user_error("graph {}: x {} and {} {} must have equally many samples (the first extent)", graph.name, to_string(x.type), y.name,
               to_string(y.type));
  const ValueType key{DType::i32, {4}, Format::plain};
  if (ends.random_key && graph.value(ends.random_key).type != key)
    user_error("graph {}: random_key must be {}, found {}", graph.name, to_string(key),
               to_string(graph.value(ends.random_key).type));
  return ends;
}

void check_options(const TrainingOptions& options) {
  if (options.nesterov && options.optimizer != Optimizer::sgd) user_error("nesterov applies to sgd, not to adam or adamw");
  if (options.nesterov && options.momentum == 0) user_error("nesterov needs a momentum above 0");
  for (const auto& [name, beta] : {std::pair("beta1", options.beta1), std::pair("beta2", options.beta2)})
    if (!(beta >= 0 && beta < 1)) user_error("{} must be at least 0 and below 1, found {}", name, beta);
  if (!(options.clip_norm >= 0)) user_error("clip_norm must be at least 0, found {}", options.clip_norm);
}

using Gradients = std::vector<std::pair<ValueId, ValueId>>;  // parameter → its gradient

// The factor [1] that scales the gradients down to the norm of the options.
ValueId add_clipping(Graph& graph, const Gradients& gradients, double max_norm) {
  std::vector<ValueId> sums;
  for (const auto& [parameter, gradient] : gradients) {
    const std::string name = graph.fresh_op_name(graph.value(parameter).name + ".square_sum");
    sums.push_back(graph.op(graph.add_op(name, op_def_for(Use::square_sum), {gradient}, {}, {}, Phase::backward)).outputs[0]);
  }
  const OpDef& def = op_def_for(Use::clip_factor);
  const OpId made = graph.add_op(graph.fresh_op_name(std::string(def.kind())), def, std::move(sums), {{"max_norm", max_norm}}, {},
                                 Phase::backward);
  return graph.op(made).outputs[0];
}

// The optimizer's op and how it updates.
std::pair<const OpDef*, UpdateRule> update_of(const TrainingOptions& options) {
  for (const OpDef* def : all_op_defs())
    if (std::optional<UpdateRule> rule = def->update_rule(options)) return {def, *std::move(rule)};
  internal_error("no op updates parameters as the options ask");
}

void add_updates(StepGraph& training, const Gradients& gradients, const TrainingOptions& options) {
  Graph& graph = training.graph;
  const auto [def, rule] = update_of(options);
  const DType dtype = graph.value(gradients[0].first).type.dtype;
  training.learning_rate = graph.add_value("learning_rate", {dtype, {1}, Format::plain}, Role::input);
  if (rule.counts_steps) training.step = graph.add_value("step", {DType::i32, {1}, Format::plain}, Role::input);
  ValueId factor;
  if (options.clip_norm > 0) factor = add_clipping(graph, gradients, options.clip_norm);
  for (const auto& [parameter, gradient] : gradients) {
    const std::string name = graph.value(parameter).name;
    const ValueType type = graph.value(parameter).type;
    std::vector<ValueId> inputs{parameter, gradient, training.learning_rate};
    if (rule.counts_steps) inputs.push_back(training.step);
    for (const std::string_view state : rule.states) {
      inputs.push_back(graph.add_value(fmt::format("{}.{}", name, state), type, Role::state));
      training.optimizer_states.push_back(inputs.back());
    }
    if (factor) inputs.push_back(factor);
    graph.add_op(fmt::format("{}.{}", name, def->kind()), *def, std::move(inputs), rule.attributes, {}, Phase::update);
  }
}

// The sums of gradients that several batches of one step share.
void add_sums(StepGraph& made, Gradients& gradients) {
  Graph& graph = made.graph;
  for (auto& [parameter, gradient] : gradients) {
    const std::string name = graph.value(parameter).name;
    const ValueId sum = graph.add_value(name + ".gradient_sum", graph.value(parameter).type, Role::state);
    made.sums.push_back(sum);
    if (made.kind == StepKind::last) {
      const std::string total = graph.fresh_op_name(name + ".gradient_total");
      gradient = graph.op(graph.add_op(total, op_def_for(Use::add), {sum, gradient}, {}, {}, Phase::backward)).outputs[0];
    } else {
      graph.add_op(name + ".accumulate", op_def_for(Use::accumulate), {sum, gradient},
                   {{"fresh", std::int64_t{made.kind == StepKind::first}}}, {}, Phase::update);
    }
  }
}

constexpr std::int64_t kTop = 5;
const std::string kCorrect = "evaluation.correct", kCorrect5 = "evaluation.correct5";

// The logits that the loss compares with the labels, or none.
ValueId logits_of(const Graph& graph, ValueId labels) {
  for (OpId id : graph.value(labels).consumers) {
    const Op& reader = graph.op(id);
    if (const int logits = reader.def->logits_input(); logits >= 0) return reader.inputs[logits];
  }
  return {};
}

void add_count(Graph& graph, const std::string& name, ValueId logits, ValueId labels, std::int64_t k) {
  const OpId made = graph.add_op(graph.fresh_op_name(name), op_def_for(Use::correct_count), {logits, labels}, {{"k", k}}, {name});
  graph.add_output(graph.op(made).outputs[0]);
}

// Adds counts of the labels that the network meets, where it has labels; returns the number of classes.
std::int64_t add_counts(Graph& graph) {
  const ValueId labels = graph.find_value("labels");
  const ValueId logits = labels ? logits_of(graph, labels) : ValueId{};
  if (!logits) return 0;
  const ValueType& type = graph.value(logits).type;
  const std::int64_t classes = type.shape[class_dim(type)];
  add_count(graph, kCorrect, logits, labels, 1);
  if (classes > kTop) add_count(graph, kCorrect5, logits, labels, kTop);
  return classes;
}

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::whole: return "whole";
    case StepKind::first: return "first";
    case StepKind::more: return "more";
    case StepKind::last: return "last";
    case StepKind::evaluate: return "evaluate";
  }
  return "?";
}

}  // namespace

std::string program_name(StepKind kind, const Dims& x_shape) { return fmt::format("{} {}", name_of(kind), to_string(x_shape)); }

StepGraph make_step_graph(const Graph& forward, StepKind kind, const TrainingOptions& options) {
  check_options(options);
  const Ends found = find_ends(forward);  // before fusion: messages speak of the user's graph
  StepGraph made;
  made.kind = kind;
  Graph graph = kind == StepKind::evaluate ? evaluation_graph(forward) : forward;
  if (options.accuracy) made.classes = add_counts(graph);
  made.graph = fuse(graph);
  const auto same = [&](ValueId id) { return id ? made.graph.find_value(forward.value(id).name) : ValueId{}; };
  made.x = same(found.x);
  made.y = same(found.y);
  made.random_key = same(found.random_key);  // evaluation draws nothing, so that it has none
  made.loss = made.graph.outputs()[0];
  made.correct = made.graph.find_value(kCorrect);
  made.correct5 = made.graph.find_value(kCorrect5);
  if (!options.gradients) make_planar(made.graph, made.x);
  if (kind == StepKind::evaluate) {
    verify_graph(made.graph);
    return made;
  }

  AutodiffOptions autodiff{.of = {made.loss}, .with_respect = {}};
  if (options.gradients && is_float(made.graph.value(made.x).type.dtype)) autodiff.with_respect.push_back(made.x);
  const AutodiffResult result = differentiate(made.graph, autodiff);
  made.loss_gradient = result.seeds[0];

  Gradients of_parameters;
  for (const auto& [subject, gradient] : result.gradients)
    if (made.graph.value(subject).role == Role::parameter) of_parameters.emplace_back(subject, gradient);
  if (of_parameters.empty()) user_error("graph {}: the loss depends on no parameter; there is nothing to train", forward.name);
  for (const Value& value : forward.values())
    if (value.role == Role::parameter && !value.producer &&
        !std::ranges::count(of_parameters, made.graph.find_value(value.name), &std::pair<ValueId, ValueId>::first))
      user_error(
          "graph {}: the loss has no gradient by parameter '{}', so that it would never be trained; declare it as a state, or "
          "remove it",
          forward.name, value.name);
  if (kind != StepKind::whole) add_sums(made, of_parameters);
  if (kind == StepKind::whole || kind == StepKind::last) {
    if (options.gradients) {
      made.gradients = of_parameters;
      for (const auto& [subject, gradient] : result.gradients)
        if (subject == made.x) made.gradients.emplace_back(subject, gradient);
      for (const auto& [subject, gradient] : made.gradients) made.graph.add_output(gradient);
    }
    add_updates(made, of_parameters, options);
  }
  verify_graph(made.graph);
  return made;
}

}  // namespace outsize
