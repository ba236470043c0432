#include "plan/two_ps.h"

#include "plan/tiled.h"

namespace outsize {

Plan plan_two_ps(const PlanRequest& request) { return fastest_tiled_plan(request, "2ps", TiledChoice::Halo::share, false); }

}  // namespace outsize
