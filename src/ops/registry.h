#pragma once

#include <vector>

#include "ops/kernel.h"

namespace outsize {

// Every op folder, one line each. A folder X holds
//   op.cpp         void define_X(OpList&)            shape, gradient, boxes, cost, in-place rule
//   reference.cpp  void reference_X(KernelTable&)    the executable definition, f32 and f64
//   cpu.cpp        void cpu_X(KernelTable&)          the fast one, f32
//   cases.h        OpCases cases_X()                 what tests and benchmarks run
// (clang-format off: one a line)
// clang-format off
#define OUTSIZE_OPS(X) \
  X(adaptive_avg_pool) \
  X(add) \
  X(batch_norm) \
  X(concat) \
  X(conv2d) \
  X(linear) \
  X(max_pool) \
  X(mean_squared_error) \
  X(relu) \
  X(reshape) \
  X(sgd) \
  X(softmax_cross_entropy)
// clang-format on

using OpList = std::vector<const OpDef*>;

// Makes every OpDef known to find_op_def(). Call once at start; calling again does nothing.
void register_ops();

// The kernels of the backends. cpu_kernels() exists only in builds with oneDNN.
KernelTable reference_kernels();
KernelTable cpu_kernels();

}  // namespace outsize
