#include "plan/two_ps_h.h"

#include "plan/lrcnn.h"

namespace outsize {

Plan plan_two_ps_h(const PlanRequest& request) { return plan_lrcnn(request, "2ps-h", TiledChoice::Halo::share, true); }

}  // namespace outsize
