#pragma once

#include "ops/cpu_support.h"
#include "ops/reduction.h"

namespace outsize {

// The kernel of y = scale · the sum of x; its loops are in sum_to/cpu.cpp. The result does not depend on the number of threads.
std::unique_ptr<Kernel> make_reduction(const Call& call, const StorageRule& storage, const Reduction& reduction, double scale);

}  // namespace outsize
