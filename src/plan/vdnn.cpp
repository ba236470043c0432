#include "plan/vdnn.h"

#include "plan/chain_offload.h"
#include "plan/graph_chain.h"

namespace outsize {

Plan plan_vdnn(const PlanRequest& request) { return plan_by_chain(request, "vdnn", vdnn_offload); }

}  // namespace outsize
