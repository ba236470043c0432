#pragma once

#include "ops/cpu_math.h"

namespace outsize {

// e^x of a score less its maximum, for vectorized loops: 0 below -87.3, so that what is masked with −∞ weighs nothing at all.
OUTSIZE_INLINE float softmax_weight(float x) { return x < -87.3f ? 0.0f : lane::exp(x); }

}  // namespace outsize
