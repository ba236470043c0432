#include "plan/overl_h.h"

#include "plan/tiled.h"

namespace outsize {

Plan plan_overl_h(const PlanRequest& request) { return fastest_tiled_plan(request, "overl-h", TiledChoice::Halo::overlap, true); }

}  // namespace outsize
