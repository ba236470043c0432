#include <algorithm>
#include <cmath>

#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kOffloadRatio{.name = "ratio",
                                      .kind = PlannerOption::Kind::number,
                                      .initial = "",
                                      .help = "share of the activations, by count, that leave [the least that fits]",
                                      .most = 1};

}  // namespace

Planned<Plan> plan_offload_ratio(const PlanRequest& request) {
  const Runs runs = eager_order(request.graph);
  const Lives lives = lives_of(request, costs_of(request), runs);
  const std::vector<Swap> gaps = activation_gaps(lives);
  const auto first = [&](std::size_t count) {
    return SpillChoice{runs, {gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(count)}};
  };
  const auto fits = [&](std::size_t count) {
    const Table<std::int64_t> bytes = tightest_bytes(request, lives, first(count));
    return *std::max_element(bytes.begin(), bytes.end()) <= limit_of(request);
  };
  std::size_t low = 0, high = !runs.empty() ? gaps.size() : 0;
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

std::vector<PlannerOption> offload_ratio_options() { return {kOffloadRatio}; }

}  // namespace outsize
