#pragma once

#include <cstdint>

#include "ops/cuda/block.h"

namespace outsize::OUTSIZE_PLACE {

// The most bytes of scores that kernels of attention work on at once, and have as workspace; of kernels that are made from then on.
// Benchmarks set it.
std::int64_t& score_bytes();

}  // namespace outsize::OUTSIZE_PLACE
