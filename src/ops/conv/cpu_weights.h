#pragma once

#include "ops/conv/cpu_convolution.h"

// Weight gradients of kernels of three columns, in AVX-512: the library's code reads x from memory for every product and stops at
// 84 % of what the machine multiplies; here a number of x, once in a register, meets all three taps.
namespace outsize {

// Whether the loops are there for this call and faster than the library (docs/kernels.md has the measurements).
bool has_row_weights(const StorageRule& storage, const ConvGeometry& geometry);

// The weights' gradient, where has_row_weights: in[0] is dy, in[1] is x; out[1] is the gradient of the bias if asked for.
std::unique_ptr<Kernel> make_row_weights(const ConvProblem& problem, const ConvGeometry& geometry);

}  // namespace outsize
