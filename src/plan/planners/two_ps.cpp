#include "plan/planners/lrcnn.h"
#include "plan/planners/planners.h"

namespace outsize {

Planned<Plan> plan_two_ps(const PlanRequest& request) { return plan_lrcnn(request, "2ps", TiledChoice::Halo::share, false); }

}  // namespace outsize
