#include "plan/two_ps.h"

#include "plan/lrcnn.h"

namespace outsize {

Plan plan_two_ps(const PlanRequest& request) { return plan_lrcnn(request, "2ps", TiledChoice::Halo::share, false); }

}  // namespace outsize
