#include "plan/vdnn.h"

#include "plan/chain_offload.h"
#include "plan/swap_chain.h"
#include "plan/vdnn_all.h"

namespace outsize {

Plan plan_vdnn(const PlanRequest& request) {
  constexpr double kBytes = 1e9;  // in a GB
  std::optional<double> threshold;
  if (request.options.has(kVdnnThreshold)) threshold = request.options.number(kVdnnThreshold) / kBytes;
  try {
    return plan_by_chain(request, "vdnn", [threshold](const Chain& chain, std::int64_t memory, double bandwidth) {
      return vdnn_offload(chain, memory, bandwidth, threshold);
    });
  } catch (const BudgetError&) {
    if (threshold) throw;
    // At the lowest threshold everything leaves. The chain takes a layer's activations for one; one by one they may fit.
    return plan_all_away(request, "vdnn");
  }
}

}  // namespace outsize
