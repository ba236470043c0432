#pragma once

#include <memory>

#include "backend/interface.h"

namespace outsize {

// The kernels of the cuda backend as loops of the host, on one thread, in the memory of the host: their results without a card.
std::unique_ptr<Backend> make_cuda_host_backend();

}  // namespace outsize
