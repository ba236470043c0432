#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/error.h"

namespace outsize {

// Throws UserError saying what the card was doing when it failed.
inline void expect_card(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return;
  user_error("the card failed while {}: {}; a run goes on from its last checkpoint with --resume", doing,
             cudaGetErrorString(error));
}

}  // namespace outsize
