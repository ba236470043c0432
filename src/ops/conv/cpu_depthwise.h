#pragma once

#include "ops/conv/cpu_convolution.h"

// Loops for convolutions of each channel by itself, where the library has no fast implementation: three spatial dimensions, large
// kernels' weight gradients, dilation.
namespace outsize {

// Whether the boxes of the call hold whole groups of one channel of x and one of y.
bool is_depthwise(const ConvGeometry& geometry);

// y from x: in[0] is x, in[1] the weights, in[2] the bias if there is one.
std::unique_ptr<Kernel> make_depthwise_forward(const ConvProblem& problem, const ConvGeometry& geometry);
// x from y: in[0] is y, in[1] the weights, in[2] the bias (of x) if there is one.
std::unique_ptr<Kernel> make_depthwise_spread(const ConvProblem& problem, const ConvGeometry& geometry);
// The weights' gradient: in[0] is dy, in[1] is x; out[1] is the gradient of the bias if asked for.
std::unique_ptr<Kernel> make_depthwise_weights(const ConvProblem& problem, const ConvGeometry& geometry);

}  // namespace outsize
