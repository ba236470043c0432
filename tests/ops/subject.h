#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "graph/autodiff.h"
#include "harness.h"
#include "ops/cases.h"

namespace outsize::test {

// What one test is about: a case of an op folder, on a backend.
struct Subject {
  std::string op;
  OpCase op_case;
  const Backend* backend = nullptr;
};

// Every case on every backend; with `exact` also on the one the others are checked against.
std::vector<Subject> all_subjects(bool exact);
// Every case once, on the exact backend.
std::vector<Subject> exact_subjects();
// "conv2d_strided_cpu_block16"
std::string name_of(const ::testing::TestParamInfo<Subject>& info);
std::ostream& operator<<(std::ostream& stream, const Subject& subject);

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
void evaluate(const Backend& backend, const CaseGraph& graph, const std::vector<OpId>& ops, Values& values);

// A case with its values from the exact backend, so that every op can be tried alone on inputs that do occur.
class Bench {
 public:
  Bench(const OpCase& op_case, const Backend& backend);

  const CaseGraph& graph() const { return graph_; }
  const CaseGraph& exact_graph() const { return exact_graph_; }
  const Values& exact_values() const { return values_; }
  // The ops that the backend has kernels for.
  std::vector<OpId> ops() const;
  // The inputs of an op in the backend's precision, and the very same numbers in f64.
  std::vector<Tensor> inputs(OpId op) const;
  std::vector<Tensor> exact_inputs(OpId op) const;

 private:
  const Backend& backend_;
  CaseGraph graph_;
  CaseGraph exact_graph_;
  Values values_;
};

std::vector<int> all_dimensions(const ValueType& type);
// A few of them, so that a grid in them has not too many boxes.
std::vector<int> some_of(Random& random, std::vector<int> dimensions);
// A box that is random in all dimensions.
Box random_box(Random& random, const ValueType& type);
// Disjoint boxes that cover a value of this shape, a random grid in the given dimensions.
std::vector<Box> random_partition(Random& random, const Dims& shape, const std::vector<int>& dimensions);

}  // namespace outsize::test
