#pragma once

#include "ops/conv/shape.h"
#include "ops/cuda/support.h"

// The weight gradient of a network's first convolution, whose x has few channels: a product of dy and of x unfolded, tile by tile
// in shared memory. The library's takes far more workspace.
namespace outsize::OUTSIZE_PLACE {

// Whether it takes these boxes: one group, so few channels and taps that a block holds their sums.
bool has_stem_weights(const SlidingWindows& windows, const Channels& channels, const Box& dy, const Box& x);

std::int64_t stem_weights_workspace(const SlidingWindows& windows, const Box& dy, const Box& x);

// dw[o, c, k] = Σ dy[n, i, o] · x[n, i · stride − before + k · dilation, c] for the channels of the boxes.
void run_stem_weights(const SlidingWindows& windows, const float* dy, const Box& dy_box, const float* x, const Box& x_box,
                      float* dw, std::byte* workspace, void* queue);

}  // namespace outsize::OUTSIZE_PLACE
