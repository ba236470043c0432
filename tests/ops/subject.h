#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "check/case_graph.h"
#include "harness.h"

namespace outsize::test {

using checks::CaseGraph;
using checks::Random;
using checks::random_leaves;
using checks::Values;

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

// Runs these ops in order, on whole values.
void evaluate(const Backend& backend, const CaseGraph& graph, const std::vector<OpId>& ops, Values& values);

// A case with its values from the exact backend, so that every op can be tried alone on inputs that do occur.
class Bench : public checks::Bench {
 public:
  Bench(const OpCase& op_case, const Backend& backend) : checks::Bench(op_case, backend, exact_backend(), fail) {}
};

std::vector<int> all_dimensions(const ValueType& type);
// A few of them, so that a grid in them has not too many boxes.
std::vector<int> some_of(Random& random, std::vector<int> dimensions);
// A box that is random in all dimensions.
Box random_box(Random& random, const ValueType& type);
// Disjoint boxes that cover a value of this shape, a random grid in the given dimensions.
std::vector<Box> random_partition(Random& random, const Dims& shape, const std::vector<int>& dimensions);

}  // namespace outsize::test
