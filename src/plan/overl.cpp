#include "plan/overl.h"

#include "plan/tiled.h"

namespace outsize {

Plan plan_overl(const PlanRequest& request) { return fastest_tiled_plan(request, "overl", TiledChoice::Halo::overlap, false); }

}  // namespace outsize
