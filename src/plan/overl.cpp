#include "plan/overl.h"

#include "plan/lrcnn.h"

namespace outsize {

Plan plan_overl(const PlanRequest& request) { return plan_lrcnn(request, "overl", TiledChoice::Halo::overlap, false); }

}  // namespace outsize
