#pragma once

#include <string>

#include "outsize/training.h"

namespace outsize {

// "constant", "step" or "cosine"; throws UserError naming what there is.
LearningRate::Kind parse_schedule(const std::string& name);

}  // namespace outsize
