#pragma once

#include <vector>

#include "ops/kernel.h"

namespace outsize {

// Every op folder, one line each. A folder X holds
//   op.cpp         void define_X(OpList&)            shape, gradient, boxes, cost, in-place rule
//   reference.cpp  void reference_X(KernelTable&)    the executable definition, f32 and f64
//   cpu.cpp        void cpu_X(KernelTable&)          the fast one, f32
//   cuda.cu        void cuda_X(KernelTable&)         block programs, in f32: kernels of the card, and the same as loops of the host
//   cases.h        OpCases cases_X()                 what tests and benchmarks run
// (clang-format off: one a line)
// clang-format off
#define OUTSIZE_OPS(X) \
  X(accumulate) \
  X(adam) \
  X(adaptive_avg_pool) \
  X(add) \
  X(affine) \
  X(attention) \
  X(avg_pool) \
  X(batch_norm) \
  X(binary_cross_entropy) \
  X(channel_sum) \
  X(clip) \
  X(concat) \
  X(conv) \
  X(conv_transpose) \
  X(correct_count) \
  X(div) \
  X(dropout) \
  X(embedding) \
  X(expand) \
  X(gelu) \
  X(group_norm) \
  X(label_count) \
  X(layer_norm) \
  X(leaky_relu) \
  X(linear) \
  X(log_softmax) \
  X(matmul) \
  X(max_pool) \
  X(mean_squared_error) \
  X(mul) \
  X(pad) \
  X(permute) \
  X(power) \
  X(relu) \
  X(reshape) \
  X(sgd) \
  X(sigmoid) \
  X(silu) \
  X(slice) \
  X(soft_dice) \
  X(softmax) \
  X(softmax_cross_entropy) \
  X(sub) \
  X(sum) \
  X(sum_to) \
  X(tanh) \
  X(upsample)
// clang-format on

using OpList = std::vector<const OpDef*>;

// Makes every OpDef known to find_op_def(). Call once at start; calling again does nothing.
void register_ops();

// The kernels of the backends. cpu_kernels() exists only in builds with oneDNN, cuda_kernels() only in those with CUDA;
// cuda_host_kernels() are the same block programs as loops of the host.
KernelTable reference_kernels();
KernelTable cpu_kernels();
KernelTable cuda_kernels(bool tf32);
KernelTable cuda_host_kernels(bool tf32 = false);

}  // namespace outsize
