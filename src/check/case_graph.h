#pragma once

#include <random>
#include <vector>

#include "check/call.h"
#include "graph/autodiff.h"
#include "ops/cases.h"

namespace outsize::checks {

using Random = std::mt19937_64;

// The graph of a case in that precision, fused if asked, and differentiated with respect to all float inputs and parameters if the
// case says so.
struct CaseGraph {
  Graph graph;
  AutodiffResult autodiff;

  CaseGraph(const OpCase& op_case, DType dtype, bool fused = false);
  std::vector<OpId> ops() const;
  OpSite site(OpId op) const { return {graph, graph.op(op)}; }
};

// The whole value of every value of a graph, by id; ids are the same in every precision.
using Values = std::vector<Tensor>;

// Random values for what no op produces; floats are such that f32 holds them.
Values random_leaves(const CaseGraph& graph, const OpCase& op_case);
// Runs these ops in order, on whole values.
void evaluate(const Kernels& kernels, const CaseGraph& graph, const std::vector<OpId>& ops, Values& values, const Fault& fault);

// A case with its values from exact kernels, so that every op can be tried alone on inputs that do occur.
class Bench {
 public:
  // The case for `kernels`, its values by `exact` in f64. Both outlive it.
  Bench(const OpCase& op_case, const Kernels& kernels, const Kernels& exact, const Fault& fault);

  const CaseGraph& graph() const { return graph_; }
  const CaseGraph& exact_graph() const { return exact_graph_; }
  const Values& exact_values() const { return values_; }
  // The ops that there are kernels for.
  std::vector<OpId> ops() const;
  // The inputs of an op in the kernels' precision, and the very same numbers in f64.
  std::vector<Tensor> inputs(OpId op) const;
  std::vector<Tensor> exact_inputs(OpId op) const;

 private:
  const Kernels& kernels_;
  CaseGraph graph_;
  CaseGraph exact_graph_;
  Values values_;
};

}  // namespace outsize::checks
