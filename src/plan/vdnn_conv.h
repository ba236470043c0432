#pragma once

#include "plan/planner.h"

namespace outsize {

// vDNN-conv: the inputs of convolutions wait in host memory between forward and backward; all else stays.
Plan plan_vdnn_conv(const PlanRequest& request);

}  // namespace outsize
