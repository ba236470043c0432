#include "plan/overl_h.h"

#include "plan/lrcnn.h"

namespace outsize {

Plan plan_overl_h(const PlanRequest& request) { return plan_lrcnn(request, "overl-h", TiledChoice::Halo::overlap, true); }

}  // namespace outsize
