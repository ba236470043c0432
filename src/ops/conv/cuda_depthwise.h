#pragma once

#include "ops/conv/shape.h"
#include "ops/cuda/support.h"

// Convolutions of each channel by itself in two dimensions, without a stride or dilation, as block programs: the library's take
// many times what the memory allows. Every result gathers what it is made of, so that its additions have one order.
namespace outsize::OUTSIZE_PLACE {

// Whether they take a convolution of these windows and channels, with so many positions in a map.
bool has_depthwise(const SlidingWindows& windows, const Channels& channels, std::int64_t positions);

// out[n, i, c] = Σ weight[c, k] · in[n, i + offset + k, c] over boxes of global coordinates; what the box of `in` has not is zero.
// From y to x the kernel is turned around.
struct Depthwise {
  const float* in;
  Box in_box;
  const float* weight;  // of the boxes' channels
  float* out;
  Box out_box;
  const float* bias = nullptr;
  bool relu = false;
};
void run_depthwise(const SlidingWindows& windows, const Depthwise& call, bool turned, void* queue);

// The gradient of the weights, from dy and x.
std::int64_t depthwise_weights_workspace(const SlidingWindows& windows, const Box& dy);
void run_depthwise_weights(const SlidingWindows& windows, const float* dy, const Box& dy_box, const float* x, const Box& x_box,
                           float* dw, std::byte* workspace, void* queue);

}  // namespace outsize::OUTSIZE_PLACE
