#pragma once

// Marks a function for block programs on a card (ops/cuda/block.h) and for code of the host.
#if defined(__CUDACC__)
#define OUTSIZE_BOTH __host__ __device__
#else
#define OUTSIZE_BOTH
#endif
