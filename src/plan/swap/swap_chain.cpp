#include "plan/swap/swap_chain.h"

#include <algorithm>
#include <numeric>

#include "plan/analysis/order.h"

namespace outsize {

namespace {

constexpr int kAttempts = 6;
// A value of less than this part of all that waits is joined with the next.
constexpr std::int64_t kParts = 200;

// An x_i.
struct Waiting {
  std::int64_t bytes = 0;
  std::int32_t made = -1;    // the run that makes the last of it, or of those before it in the chain
  std::int32_t before = -1;  // the first run of backward that reads any of it; -1: none does
  std::vector<Swap> swaps;
};

std::vector<Waiting> waiting_of(const Lives& lives) {
  std::vector<Swap> gaps;
  std::int64_t total = 0;
  for (std::int32_t k = 0; k < lives.all.size(); ++k) {
    const auto gap = gap_of(lives, k);
    if (!gap) continue;
    gaps.push_back(*gap);
    total += lives.all[k].bytes;
  }
  std::stable_sort(gaps.begin(), gaps.end(), [](const Swap& a, const Swap& b) { return a.before > b.before; });
  std::vector<Waiting> all;
  for (const Swap& gap : gaps) {
    const Life& life = lives.all[gap.life];
    if (all.empty())
      all.emplace_back();
    else if (all.back().bytes >= total / kParts)
      all.push_back({.made = all.back().made});
    Waiting& last = all.back();
    last.bytes += life.bytes;
    last.made = std::max(last.made, life.made);
    last.before = gap.before;
    last.swaps.push_back(gap);
  }
  if (all.empty()) all.emplace_back();  // a chain has a layer
  return all;
}

std::vector<Swap> swaps_of(const SwapChain& of, const std::vector<bool>& offloaded) {
  std::vector<Swap> swaps;
  for (std::size_t i = 0; i < offloaded.size(); ++i)
    if (offloaded[i]) swaps.insert(swaps.end(), of.swaps[i].begin(), of.swaps[i].end());
  return swaps;
}

}  // namespace

SwapChain swap_chain_of(const PlanRequest& request) {
  SwapChain of;
  of.runs = eager_order(request.graph);
  of.lives = lives_of(request, costs_of(request), of.runs);
  of.fixed = of.lives.persistent;
  std::vector<Waiting> waiting = waiting_of(of.lives);

  const std::size_t layers = waiting.size();
  Chain& chain = of.chain;
  chain.forward.assign(layers, 0);
  chain.backward.assign(layers, 0);
  chain.forward_extra.assign(layers, 0);
  chain.backward_extra.assign(layers, 0);
  chain.y.assign(layers + 1, 0);
  for (Waiting& x : waiting) {
    chain.x.push_back(x.bytes);
    of.swaps.push_back(std::move(x.swaps));
    of.first.push_back(of.runs[std::min<std::int64_t>(x.made + 1, of.runs.size() - 1)]);
  }
  chain.x.push_back(0);

  std::vector<std::int64_t> sums(layers + 1);  // of x_0 … x_i
  std::partial_sum(chain.x.begin(), chain.x.end(), sums.begin());
  const std::vector<std::int64_t> bytes = of.lives.bytes();
  std::size_t layer = 0;
  for (std::int32_t run = 0; run < of.runs.size(); ++run) {
    const bool backward = run >= of.lives.backward;
    if (run == of.lives.backward) layer = layers - 1;
    if (backward)
      while (layer > 0 && waiting[layer - 1].before <= run) --layer;
    else
      while (layer + 1 < layers && waiting[layer + 1].made < run) ++layer;
    (backward ? chain.backward : chain.forward)[layer] += of.lives.seconds[run];
    std::int64_t& extra = (backward ? chain.backward_extra : chain.forward_extra)[layer];
    extra = std::max(extra, bytes[run] - of.fixed - sums[layer + 1]);
  }
  return of;
}

Planned<Plan> plan_by_chain(const PlanRequest& request, std::string_view planner, const ChainDecision& decide) {
  const SwapChain of = swap_chain_of(request);
  const auto plan_of = [&](const std::vector<bool>& offloaded) {
    return spill_plan(request, planner, of.lives, {of.runs, swaps_of(of, offloaded)});
  };
  if (!request.limited()) return plan_of({});
  // What the chain lets leave too early needs a little more in the graph, which is then left free.
  std::int64_t memory = limit_of(request) - of.fixed;
  std::optional<Refusal> refusal;
  for (int attempt = 0; attempt < kAttempts && memory > 0; ++attempt) {
    const auto offloaded = decide(of.chain, memory, std::min(request.profile.device.link_out, request.profile.device.link_in));
    if (!offloaded) break;
    Planned<Plan> plan = plan_of(*offloaded);
    if (plan || plan.refusal().tier != Tier::device) return plan;
    if (!refusal || plan.refusal().missing() < refusal->missing()) refusal = plan.refusal();
    memory -= plan.refusal().missing();
  }
  if (refusal) return *refusal;
  // What the model needs at least: one layer's own.
  std::int64_t most = 0;
  std::size_t layer = 0;
  for (std::size_t i = 0; i < of.chain.layers(); ++i) {
    const std::int64_t needed = std::max(forward_bytes(of.chain, i), backward_bytes(of.chain, i));
    if (needed <= most) continue;
    most = needed;
    layer = i;
  }
  return refusal_of(request, planner, std::max(of.fixed + most, request.budgets.device + 1), of.first[layer]);
}

}  // namespace outsize
