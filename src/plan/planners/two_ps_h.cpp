#include "plan/planners/lrcnn.h"
#include "plan/planners/planners.h"

namespace outsize {

Planned<Plan> plan_two_ps_h(const PlanRequest& request) { return plan_lrcnn(request, "2ps-h", TiledChoice::Halo::share, true); }

}  // namespace outsize
