#include "plan/planners/lrcnn.h"
#include "plan/planners/planners.h"

namespace outsize {

Planned<Plan> plan_overl(const PlanRequest& request) { return plan_lrcnn(request, "overl", TiledChoice::Halo::overlap, false); }

}  // namespace outsize
