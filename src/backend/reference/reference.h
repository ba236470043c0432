#pragma once

#include <memory>

#include "backend/interface.h"

namespace outsize {

// Plain loops on one thread, f32 and f64: the executable definition of every op.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace outsize
