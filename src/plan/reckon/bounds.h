#pragma once

#include <cstdint>
#include <vector>

#include "plan/planner.h"

namespace outsize {

// Lower bounds on the time of a step within a budget. docs/bounds.md has the proofs; numbers of equations are its.

// A step as bounds see it: ops that read and make whole values. What nothing needs is left out.
struct Work {
  struct Value {
    std::int64_t bytes = 0;
    std::int32_t producer = -1;         // none: it has a copy in a lower tier before the step begins
    std::vector<std::int32_t> readers;  // ascending, once each
    bool persistent = false;            // a weight, there before the step and after it
  };
  struct Op {
    double seconds = 0;
    std::int64_t workspace = 0;
    std::vector<std::int32_t> inputs, outputs;  // values, once each
    bool again = true;                          // it may run more than once
    // Values: `output` may take the place of `input`.
    struct Overwrite {
      std::int32_t output = 0, input = 0;
    };
    std::vector<Overwrite> overwrites = {};
  };
  std::vector<Value> values;
  std::vector<Op> ops;          // every input has its producer before its readers
  std::int64_t persistent = 0;  // bytes of all weights and states, also of those that only updates touch
};

// The work of a training graph. Updates may run on the host: nothing is read or made by them here, and they take time only where
// host and device are one processor. Of several kernels of an op, `request.workspace` must tell the least workspace.
Work work_of(const PlanRequest& request);

// A device that holds `memory` bytes (0: all there is), and its link, half or full duplex, in bytes a second.
struct BoundDevice {
  std::int64_t memory = 0;
  double link_out = 1;
  double link_in = 1;
};

// No schedule of the work that swaps and recomputes whole values or parts of them takes less time: the best of equation (6) over
// at most 96 of the ops. Each takes time with ops + reads + values · log values. Where no schedule fits, the bound is that of
// freeing all that can be.
double lower_bound_seconds(const Work& work, const BoundDevice& device);

// No schedule of the work takes less time that has no lower tier, holds whole values, and has weights and states on the device
// throughout: the best of equation (7) over so many ops, spread over the work. Where no schedule fits, the bound is that of freeing
// all that can be.
double remaking_bound_seconds(const Work& work, std::int64_t memory);

}  // namespace outsize
