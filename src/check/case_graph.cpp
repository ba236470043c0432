#include "check/case_graph.h"

#include <algorithm>
#include <cmath>

#include "graph/fusion.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/registry.h"

namespace outsize::checks {
namespace {

constexpr std::uint64_t kSeed = 20220402;

std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }

std::string in_precision(std::string text, DType dtype) {
  if (dtype == DType::f32) return text;
  for (std::size_t found = text.find("f32"); found != std::string::npos; found = text.find("f32", found))
    text.replace(found, 3, name_of(dtype));
  return text;
}

}  // namespace

CaseGraph::CaseGraph(const OpCase& op_case, DType dtype, bool fused) {
  register_ops();
  graph = parse_graph(in_precision(op_case.graph, dtype), op_case.name);
  if (fused) graph = fuse(graph);
  if (op_case.differentiate) {
    AutodiffOptions options{graph.outputs(), {}};
    for (std::int64_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId(i));
      if (value.role == Role::input && is_float(value.type.dtype)) options.with_respect.push_back(ValueId(i));
    }
    autodiff = differentiate(graph, options);
  }
  verify_graph(graph);
}

std::vector<OpId> CaseGraph::ops() const {
  std::vector<OpId> ids;
  for (std::int64_t i = 0; i < graph.op_count(); ++i) ids.emplace_back(i);
  return ids;
}

Values random_leaves(const CaseGraph& graph, const OpCase& op_case) {
  Random random(kSeed);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<std::int64_t> integer(op_case.integer_least, op_case.integer_limit - 1);
  Values values;
  for (const Value& value : graph.graph.values()) {
    Tensor& tensor = values.emplace_back(Tensor::zeros(value.type, Box::whole(value.type.shape)));
    if (value.producer) continue;
    for (double& number : tensor.numbers)
      number = is_float(value.type.dtype) ? static_cast<float>(normal(random)) : static_cast<double>(integer(random));
    if (std::ranges::find(op_case.positive, value.name) != op_case.positive.end())
      for (double& number : tensor.numbers) number = std::abs(number) + 0.25;
  }
  return values;
}

void evaluate(const Kernels& kernels, const CaseGraph& graph, const std::vector<OpId>& ops, Values& values, const Fault& fault) {
  for (OpId op : ops) {
    const OpSite site = graph.site(op);
    std::vector<Tensor> inputs;
    for (ValueId id : site.op.inputs) inputs.push_back(values[at(id)]);
    std::vector<Tensor> results = run_op(kernels, site, inputs, whole(site), fault);
    for (std::size_t i = 0; i < results.size(); ++i) values[at(site.op.outputs[i])] = std::move(results[i]);
  }
}

Bench::Bench(const OpCase& op_case, const Kernels& kernels, const Kernels& exact, const Fault& fault)
    : kernels_(kernels),
      graph_(op_case, kernels.dtype),
      exact_graph_(op_case, DType::f64),
      values_(random_leaves(exact_graph_, op_case)) {
  evaluate(exact, exact_graph_, exact_graph_.ops(), values_, fault);
}

std::vector<OpId> Bench::ops() const {
  std::vector<OpId> offered = graph_.ops();
  std::erase_if(offered, [&](OpId op) { return !offers(kernels_, graph_.site(op)); });
  return offered;
}

std::vector<Tensor> Bench::inputs(OpId op) const {
  std::vector<Tensor> inputs;
  for (ValueId id : graph_.graph.op(op).inputs) inputs.push_back(convert(values_[at(id)], graph_.graph.value(id).type.dtype));
  return inputs;
}

std::vector<Tensor> Bench::exact_inputs(OpId op) const {
  std::vector<Tensor> same = inputs(op);
  for (Tensor& input : same)
    if (is_float(input.type.dtype)) input = convert(input, DType::f64);
  return same;
}

}  // namespace outsize::checks
