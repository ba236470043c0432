#pragma once

#include <memory>

#include "backend/interface.h"

namespace outsize {

// oneDNN and own loops on `threads` threads (0: as many as OpenMP would use), f32. Also sets the calling thread's OpenMP thread
// count, which the kernels go by: steps should run on the thread that made the backend.
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace outsize
