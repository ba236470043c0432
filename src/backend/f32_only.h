#pragma once

#include "ops/kernel.h"

namespace outsize {

// Throws UserError naming op, value and backend where a value of the call is f64: statistics may be, and what a graph is given.
void expect_f32(const Call& call, std::string_view backend);

}  // namespace outsize
