#include "plan/chain/chain_offload.h"
#include "plan/planners/planners.h"
#include "plan/swap/swap_chain.h"

namespace outsize {

namespace {

constexpr PlannerOption kVdnnThreshold{
    .name = "threshold",
    .kind = PlannerOption::Kind::number,
    .initial = "",
    .help = "seconds of forward a GB (10⁹ bytes) of activation, at or above which it leaves [the fastest]"};

}  // namespace

Planned<Plan> plan_vdnn(const PlanRequest& request) {
  constexpr double kBytes = 1e9;  // in a GB
  std::optional<double> threshold;
  if (request.options.has(kVdnnThreshold)) threshold = request.options.number(kVdnnThreshold) / kBytes;
  Planned<Plan> plan = plan_by_chain(request, "vdnn", [threshold](const Chain& chain, std::int64_t memory, double bandwidth) {
    return vdnn_offload(chain, memory, bandwidth, threshold);
  });
  if (plan || threshold) return plan;
  // At the lowest threshold everything leaves. The chain takes a layer's activations for one; one by one they may fit.
  return plan_all_away(request, "vdnn");
}

std::vector<PlannerOption> vdnn_options() { return {kVdnnThreshold}; }

}  // namespace outsize
