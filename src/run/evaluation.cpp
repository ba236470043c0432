#include "run/evaluation.h"

#include <cstring>

#include "graph/evaluation.h"
#include "graph/fusion.h"
#include "graph/opdef.h"
#include "graph/verify.h"
#include "ops/logits.h"

namespace outsize {

namespace {

constexpr std::int64_t kTop = 5;

// The logits that the loss compares with the labels, or none.
ValueId logits_of(const Graph& graph, ValueId labels) {
  for (OpId reader : graph.value(labels).consumers)
    if (graph.op(reader).def->kind() == "softmax_cross_entropy") return graph.op(reader).inputs[0];
  return {};
}

ValueId add_count(Graph& graph, const std::string& name, ValueId logits, ValueId labels, std::int64_t k) {
  const OpDef* def = find_op_def("correct_count");
  if (!def) internal_error("the op kind 'correct_count' is not registered");
  const OpId made = graph.add_op(graph.fresh_op_name(name), *def, {logits, labels}, {{"k", k}});
  graph.add_output(graph.op(made).outputs[0]);
  return graph.op(made).outputs[0];
}

// How many labels name a class.
std::int64_t counted(const Batch& batch, std::int64_t classes) {
  std::int64_t rows = 0;
  for (std::size_t at = 0; at + sizeof(std::int32_t) <= batch.y.size(); at += sizeof(std::int32_t)) {
    std::int32_t label = 0;
    std::memcpy(&label, batch.y.data() + at, sizeof label);
    rows += label >= 0 && label < classes;
  }
  return rows;
}

}  // namespace

EvaluationGraph make_evaluation_graph(const Graph& forward) {
  EvaluationGraph made;
  Graph graph = evaluation_graph(forward);
  const ValueId labels = graph.find_value("labels");
  const std::string kCorrect = "evaluation.correct", kCorrect5 = "evaluation.correct5";
  if (const ValueId logits = labels ? logits_of(graph, labels) : ValueId{}) {
    const ValueType& type = graph.value(logits).type;
    made.classes = type.shape[class_dim(type)];
    add_count(graph, kCorrect, logits, labels, 1);
    if (made.classes > kTop) add_count(graph, kCorrect5, logits, labels, kTop);
  }
  made.graph = fuse(graph);
  verify_graph(made.graph);
  made.x = made.graph.find_value("x");
  made.y = labels ? made.graph.find_value("labels") : made.graph.find_value("target");
  made.loss = made.graph.outputs()[0];
  made.correct = made.graph.find_value(kCorrect);
  made.correct5 = made.graph.find_value(kCorrect5);
  OUTSIZE_CHECK(made.x && made.y);
  return made;
}

void Evaluation::add(const Evaluation& batch) {
  const double weight = static_cast<double>(rows > 0 ? rows : samples);
  const double more = static_cast<double>(batch.rows > 0 ? batch.rows : batch.samples);
  if (weight + more > 0) loss = (loss * weight + batch.loss * more) / (weight + more);
  samples += batch.samples;
  rows += batch.rows;
  correct += batch.correct;
  correct5 += batch.correct5;
}

Evaluator::Evaluator(EvaluationGraph evaluation, Prepared prepared, Backend& backend, std::shared_ptr<Memory> memory)
    : evaluation_(std::move(evaluation)), prepared_(std::move(prepared)) {
  ExecutorOptions options;
  options.canary_bytes = kCanaryBytes;
  options.debug_memory = kCanaryBytes > 0;
  executor_ = std::make_unique<Executor>(evaluation_.graph, prepared_.program, backend, std::move(memory), std::move(options));
}

double Evaluator::read(ValueId value) const {
  const DType dtype = evaluation_.graph.value(value).type.dtype;
  std::array<std::byte, sizeof(double)> bytes{};
  executor_->read(value, std::span(bytes).first(static_cast<std::size_t>(size_of(dtype))));
  double wide = 0;
  float single = 0;
  std::memcpy(&wide, bytes.data(), sizeof wide);
  std::memcpy(&single, bytes.data(), sizeof single);
  return dtype == DType::f64 ? wide : static_cast<double>(single);
}

Evaluation Evaluator::run(const Batch& batch) {
  executor_->write(evaluation_.x, batch.x);
  executor_->write(evaluation_.y, batch.y);
  executor_->step();
  Evaluation found;
  found.samples = evaluation_.graph.value(evaluation_.x).type.shape[0];
  found.loss = read(evaluation_.loss);
  if (!evaluation_.correct) return found;
  found.rows = counted(batch, evaluation_.classes);
  found.correct = read(evaluation_.correct);
  found.correct5 = evaluation_.correct5 ? read(evaluation_.correct5) : 0;
  return found;
}

}  // namespace outsize
