#pragma once

#include "ops/cuda/support.h"
#include "ops/reduction.h"

namespace outsize::OUTSIZE_PLACE {

// The kernel of output 0 = scale · the sum of input 0; its block programs are in sum_to/cuda.cu. The order of all additions is
// fixed by the shape and the card.
std::unique_ptr<Kernel> make_sums(const Call& call, const StorageRule& storage, const Reduction& reduction, double scale);

}  // namespace outsize::OUTSIZE_PLACE
