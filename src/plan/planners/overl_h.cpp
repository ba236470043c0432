#include "plan/planners/lrcnn.h"
#include "plan/planners/planners.h"

namespace outsize {

Planned<Plan> plan_overl_h(const PlanRequest& request) { return plan_lrcnn(request, "overl-h", TiledChoice::Halo::overlap, true); }

}  // namespace outsize
