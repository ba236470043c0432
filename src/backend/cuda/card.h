#pragma once

#include <memory>

#include "backend/interface.h"

namespace outsize {

// Whether there is an NVIDIA card that this process may use, with a driver for this build.
bool card_is_here();

// The first NVIDIA card that the process sees, in f32, or with factors rounded to TF32. `threads` of the host read data. Throws
// UserError where there is none.
std::unique_ptr<Backend> make_cuda_backend(int threads, bool tf32);

}  // namespace outsize
