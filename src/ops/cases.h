#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace outsize {

// One case of an op: a small graph in the text form, written in f32 (the driver also runs it in f64). From it the driver makes
// the forward check of every backend against reference f64, the gradient check against finite differences, the box check of the
// op and of its backward ops, and the benchmark.
struct OpCase {
  std::string name;
  std::string graph;               // ends with `output NAME`; that output is differentiated
  std::int64_t integer_limit = 2;  // integer inputs are drawn from below it
  bool differentiate = true;       // false: forward only
  // The graph's output as a Python expression over the names of its inputs and parameters, with `torch` and `F`
  // (torch.nn.functional) in scope; empty where PyTorch has no such op.
  std::string torch = {};
  bool bench = false;  // sized for timing: tests leave it out
  // Integer inputs are drawn from [integer_least, integer_limit).
  std::int64_t integer_least = 0;
  std::vector<std::string> positive = {};  // float inputs, parameters and states of these names are drawn above 0
};

using OpCases = std::vector<OpCase>;

}  // namespace outsize
