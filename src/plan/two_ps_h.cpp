#include "plan/two_ps_h.h"

#include "plan/tiled.h"

namespace outsize {

Plan plan_two_ps_h(const PlanRequest& request) { return fastest_tiled_plan(request, "2ps-h", TiledChoice::Halo::share, true); }

}  // namespace outsize
