#include "plan/vdnn.h"

#include "plan/chain_offload.h"
#include "plan/graph_chain.h"

namespace outsize {

Plan plan_vdnn(const PlanRequest& request) {
  constexpr double kBytes = 1e9;  // in a GB
  std::optional<double> threshold;
  if (request.options.has(kVdnnThreshold)) threshold = request.options.number(kVdnnThreshold) / kBytes;
  return plan_by_chain(request, "vdnn", [threshold](const Chain& chain, std::int64_t memory, double bandwidth) {
    return vdnn_offload(chain, memory, bandwidth, threshold);
  });
}

}  // namespace outsize
