#include "plan/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "plan/groups.h"
#include "plan/recompute.h"
#include "plan/spill.h"

namespace outsize {

namespace {

// More segments than this are not tried one by one but in steps.
constexpr std::int64_t kTried = 48;

// Everything that forward makes but the values between `segments` equal runs of groups, and all of the last one, which backward
// begins with at once.
std::vector<bool> dropped_by(const Graph& graph, const std::vector<Group>& groups, std::int64_t segments) {
  std::vector<bool> dropped(static_cast<std::size_t>(graph.value_count()), false);
  const auto count = static_cast<std::int64_t>(groups.size());
  const std::int64_t last = (segments - 1) * count / segments;
  for (std::int64_t g = 0; g < last; ++g) {
    const Group& group = groups[static_cast<std::size_t>(g)];
    for (OpId id : group.forward)
      for (ValueId output : graph.op(id).outputs)
        // Statistics are small, and to make them again would take another pass over what they are of.
        dropped[static_cast<std::size_t>(output.index)] = graph.value(output).role != Role::statistic;
  }
  for (std::int64_t s = 1; s < segments; ++s) {
    const std::int64_t boundary = s * count / segments;
    if (boundary == 0) continue;
    if (const ValueId kept = groups[static_cast<std::size_t>(boundary - 1)].output)
      dropped[static_cast<std::size_t>(kept.index)] = false;
  }
  return dropped;
}

}  // namespace

Plan plan_checkpoint(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const std::vector<Group> groups = groups_of(graph);
  const OpCosts costs = costs_of(request);
  const auto count = static_cast<std::int64_t>(groups.size());
  const auto root = std::clamp<std::int64_t>(std::llround(std::sqrt(static_cast<double>(count))), 1, count);
  const auto attempt = [&](std::int64_t segments) {
    Runs runs = with_recomputation(graph, dropped_by(graph, groups, segments), Again::held);
    Lives lives = lives_of(request, costs, runs);
    return std::pair(std::move(runs), std::move(lives));
  };
  const bool given = request.options.has(kCheckpointSegments);
  std::vector<std::int64_t> tried{given ? std::min(request.options.integer(kCheckpointSegments), std::max<std::int64_t>(count, 1))
                                        : root};
  if (request.device_budget > 0 && !given)
    for (std::int64_t k = 1; k <= std::min(count, kTried); ++k)
      tried.push_back(count <= kTried ? k : 1 + (k - 1) * (count - 1) / (kTried - 1));

  std::int64_t best = tried.front();
  double best_seconds = 0;
  std::int64_t best_bytes = 0;
  bool found = false;
  for (std::int64_t segments : tried) {
    const auto [runs, lives] = attempt(segments);
    const std::vector<std::int64_t> bytes = tightest_bytes(request, lives, {runs});
    const std::int64_t peak = bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
    const double seconds = std::accumulate(lives.seconds.begin(), lives.seconds.end(), 0.0);
    const bool fits = request.device_budget == 0 || peak <= limit_of(request);
    // Of those that fit the fastest; while none does, the smallest.
    const bool better = fits ? !found || seconds < best_seconds : !found && (best_bytes == 0 || peak < best_bytes);
    if (!better) continue;
    best = segments;
    best_seconds = seconds;
    best_bytes = peak;
    found = found || fits;
  }
  auto [runs, lives] = attempt(best);
  return spill_plan(request, "checkpoint", lives, {std::move(runs)});
}

}  // namespace outsize
