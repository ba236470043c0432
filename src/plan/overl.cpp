#include "plan/overl.h"

#include "plan/groups.h"
#include "plan/tiled.h"

namespace outsize {

Plan plan_overl(const PlanRequest& request) {
  const auto groups = static_cast<std::int64_t>(groups_of(request.graph).size());
  std::optional<TiledPlan> best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  OpId at_peak;
  for (std::int64_t layers = 1; layers <= groups; ++layers) {
    std::int64_t needed = 0;
    OpId worst;
    std::optional<TiledPlan> found = tiled_plan(request, "overl", {.layers = layers}, &needed, &worst);
    if (!found && needed < least) {
      least = needed;
      at_peak = worst;
    }
    if (found && (!best || found->seconds < best->seconds)) best = std::move(found);
  }
  if (!best) refuse_budget(request, "overl", least, at_peak);
  return std::move(best->plan);
}

}  // namespace outsize
