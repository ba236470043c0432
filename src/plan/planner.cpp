#include "plan/planner.h"

#include "base/text.h"
#include "plan/autoswap.h"
#include "plan/checkpoint.h"
#include "plan/dynprog.h"
#include "plan/fairscale.h"
#include "plan/greedy.h"
#include "plan/keep.h"
#include "plan/lrcnn.h"
#include "plan/offload_ratio.h"
#include "plan/overl.h"
#include "plan/overl_h.h"
#include "plan/recompute_cheap.h"
#include "plan/remake.h"
#include "plan/sft.h"
#include "plan/superneurons.h"
#include "plan/tflms.h"
#include "plan/tsplit.h"
#include "plan/two_ps.h"
#include "plan/two_ps_h.h"
#include "plan/vdnn.h"
#include "plan/vdnn_all.h"
#include "plan/vdnn_conv.h"
#include "plan/zero_offload.h"

namespace outsize {

const std::vector<Planner>& planners() {
  static const std::vector<Planner> all{
      {"keep", "everything stays on the device from its production to its last use", plan_keep},
      {"recompute-cheap", "as keep, but bandwidth-bound results are made again in backward", plan_recompute_cheap},
      {"checkpoint", "segments whose inside is made again in backward", plan_checkpoint, {kCheckpointSegments}},
      {"greedy", "the first layers' activations leave, as many as the budget asks for", plan_greedy},
      {"dynprog", "the activations whose leaving costs the least idle time", plan_dynprog, {kDynprogSlots}},
      {"vdnn", "activations with the most time a byte to hide their copy behind leave", plan_vdnn, {kVdnnThreshold}},
      {"vdnn-all", "every activation waits in host memory between forward and backward", plan_vdnn_all},
      {"vdnn-conv", "the inputs of convolutions wait in host memory", plan_vdnn_conv},
      {"offload-ratio", "the first activations wait in host memory, as many as need be", plan_offload_ratio, {kOffloadRatio}},
      {"superneurons",
       "results of matrix products wait in host memory, cheap ones are made again",
       plan_superneurons,
       {kSuperneuronsRecompute}},
      {"tflms", "values that backward reads wait in host memory, and come back some levels of ops early", plan_tflms,
       tflms_options()},
      {"autoswap",
       "activations leave by scores of how long, how large and at what load they are absent",
       plan_autoswap,
       {kAutoswapScore}},
      {"zero-offload", "optimizer state lives in host memory, and the updates run there", plan_zero_offload},
      {"fairscale", "weights, optimizer state and activations between layers live in host memory; updates run there",
       plan_fairscale},
      {"tsplit",
       "values leave, are made again or split into pieces, whichever costs the least time a byte where room lacks",
       plan_tsplit,
       {kTsplitSplit, kTsplitPieces}},
      {"sft",
       "values too large for the memory exist in tiles only, between smaller ones that are stored",
       plan_sft,
       {kSftTiles, kSftGrid, kSftCapacity, kRemake},
       true},
      {"overl", "the first layers run in rows or samples; rows that two tiles need are computed by both", plan_overl,
       lrcnn_options(), true},
      {"2ps", "the first layers run in rows or samples; rows that two tiles need are computed once", plan_two_ps, lrcnn_options(),
       true},
      {"overl-h", "as overl, with checkpoints between regions", plan_overl_h, lrcnn_options(), true},
      {"2ps-h", "as 2ps, with checkpoints between regions", plan_two_ps_h, lrcnn_options(), true},
  };
  return all;
}

const Planner& find_planner(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Planner& planner : planners()) {
    if (planner.name == name) return planner;
    names.push_back(planner.name);
  }
  const std::string near = did_you_mean(name, names);
  user_error("there is no planner '{}'{}", name, near.empty() ? "; `outsize planners` lists those there are" : near);
}

PlannerChoice choose_planner(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Planner& planner = find_planner(text.substr(0, colon));
  if (colon == std::string_view::npos) return {planner, {}};
  const std::string_view options = text.substr(colon + 1);
  if (options.empty()) user_error("planner {}: expected OPTION=VALUE after the colon, found nothing", planner.name);
  return {planner, PlannerOptions(planner.name, planner.options, options)};
}

}  // namespace outsize
