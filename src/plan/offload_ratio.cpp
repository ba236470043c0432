#include "plan/offload_ratio.h"

#include <algorithm>
#include <cmath>

#include "plan/order.h"
#include "plan/spill.h"

namespace outsize {

Plan plan_offload_ratio(const PlanRequest& request) {
  const Runs runs = eager_order(request.graph);
  const Lives lives = lives_of(request, costs_of(request), runs);
  const std::vector<Swap> gaps = activation_gaps(lives);
  const auto first = [&](std::size_t count) {
    return SpillChoice{runs, {gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(count)}};
  };
  const auto fits = [&](std::size_t count) {
    const std::vector<std::int64_t> bytes = tightest_bytes(request, lives, first(count));
    return *std::max_element(bytes.begin(), bytes.end()) <= limit_of(request);
  };
  std::size_t low = 0, high = request.device_budget > 0 && !runs.empty() ? gaps.size() : 0;
  while (low < high) {  // more of them never need more
    const std::size_t middle = (low + high) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  if (request.options.has(kOffloadRatio))
    low = static_cast<std::size_t>(std::ceil(request.options.number(kOffloadRatio) * static_cast<double>(gaps.size())));
  return spill_plan(request, "offload-ratio", lives, first(low));
}

}  // namespace outsize
