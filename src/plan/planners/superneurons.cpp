#include <algorithm>

#include "base/bytes.h"
#include "graph/opdef.h"
#include "graph/storage.h"
#include "plan/planners/planners.h"
#include "plan/swap/recompute.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kSuperneuronsRecompute{
    .name = "recompute",
    .kind = PlannerOption::Kind::word,
    .initial = "",
    .help = "what was made again is held (speed) or made again for each reader (memory) [as much is held as fits]",
    .words = "speed|memory"};

}  // namespace

namespace {

// How often the room for results made again is halved in search of the most that fits.
constexpr int kHalvings = 8;

Planned<Plan> superneurons(const PlanRequest& request, const OpCosts& costs, const Runs& runs) {
  const Lives lives = lives_of(request, costs, runs);
  return spill_plan(request, "superneurons", lives, {runs, activation_gaps(lives)});
}

// Holds as much of what is made again as fits, from nothing on; refused where not even that fits.
Planned<Plan> with_largest_cache(const PlanRequest& request, const OpCosts& costs, const IdVector<ValueId, bool>& cheap) {
  const Graph& graph = request.graph;
  Planned<Plan> best = superneurons(request, costs, with_recomputation(graph, cheap, Again::remade));
  if (!best) return best;
  RecomputeCache cache;
  std::int64_t fits = 0, too_much = 0;  // bytes of the cache
  for (std::int64_t v = 0; v < graph.value_count(); ++v) {
    cache.bytes.push_back(packed_bytes(request, ValueId(v)));
    if (cheap[ValueId(v)]) too_much += cache.bytes[ValueId(v)];
  }
  for (int step = 0; step < kHalvings; ++step) {
    cache.capacity = fits + (too_much - fits) / 2;
    Planned<Plan> larger = superneurons(request, costs, with_recomputation(graph, cheap, Again::cached, cache));
    (larger ? fits : too_much) = cache.capacity;
    if (larger) best = std::move(larger);
  }
  return best;
}

}  // namespace

Planned<Plan> plan_superneurons(const PlanRequest& request) {
  const Graph& graph = request.graph;
  IdVector<ValueId, bool> cheap(graph.value_count(), false);
  // Where branches join, the result is a checkpoint: to make it again would take both branches back to where they parted.
  const auto joins = [&](const Op& op) {
    return std::count_if(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
             const Value& value = graph.value(input);
             return value.producer && value.role == Role::activation;
           }) > 1;
  };
  for (const Op& op : graph.ops())
    if (op.phase == Phase::forward && op.def->cheap({graph, op}) && !joins(op))
      for (ValueId output : op.outputs)
        // Statistics are small, and to make them again would take another pass over what they are of.
        if (graph.value(output).role != Role::statistic) cheap[output] = true;
  const OpCosts costs = costs_of(request);
  if (request.options.has(kSuperneuronsRecompute)) {
    const bool speed = request.options.word(kSuperneuronsRecompute) == "speed";
    return superneurons(request, costs, with_recomputation(graph, cheap, speed ? Again::held : Again::remade));
  }
  // The more is held, the less is made again.
  Planned<Plan> held = superneurons(request, costs, with_recomputation(graph, cheap, Again::held));
  return held ? std::move(held) : with_largest_cache(request, costs, cheap);
}

std::vector<PlannerOption> superneurons_options() { return {kSuperneuronsRecompute}; }

}  // namespace outsize
