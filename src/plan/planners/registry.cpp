#include "plan/planners/lrcnn.h"
#include "plan/planners/planners.h"

namespace outsize {

const std::vector<Planner>& planners() {
  static const std::vector<Planner> all{
      {"keep", "everything stays on the device from its production to its last use", "frameworks", plan_keep},
      {"recompute-cheap", "as keep, but bandwidth-bound results are made again in backward", "Chen 2016", plan_recompute_cheap},
      {"checkpoint", "segments whose inside is made again in backward", "Chen 2016", plan_checkpoint, checkpoint_options()},
      {"remake", "results are made again, on any graph, where a search over sequences of runs finds it fastest", kOurs, plan_remake,
       remake_options(), true},
      {"greedy",
       "the first layers' activations leave, as many as the budget asks for",
       "Beaumont 2020",
       plan_greedy,
       {},
       false,
       true},
      {"dynprog", "the activations whose leaving costs the least idle time", "Beaumont 2020", plan_dynprog, dynprog_options(),
       false, true},
      {"vdnn", "activations with the most time a byte to hide their copy behind leave", "vDNN", plan_vdnn, vdnn_options(), false,
       true},
      {"vdnn-all", "every activation waits in host memory between forward and backward", "vDNN", plan_vdnn_all, {}, false, true},
      {"vdnn-conv", "the inputs of convolutions wait in host memory", "vDNN", plan_vdnn_conv, {}, false, true},
      {"offload-ratio", "the first activations wait in host memory, as many as need be", "LR-CNN", plan_offload_ratio,
       offload_ratio_options(), false, true},
      {"superneurons", "results of matrix products wait in host memory, cheap ones are made again", "SuperNeurons",
       plan_superneurons, superneurons_options(), false, true},
      {"tflms", "values that backward reads wait in host memory, and come back some levels of ops early", "TFLMS", plan_tflms,
       tflms_options()},
      {"autoswap", "activations leave by scores of how long, how large and at what load they are absent", "AutoSwap", plan_autoswap,
       autoswap_options(), false, true},
      {"zero-offload", "optimizer state lives in host memory, and the updates run there", "ZeRO-Offload", plan_zero_offload},
      {"fairscale", "weights, optimizer state and activations between layers live in host memory; updates run there", "FairScale",
       plan_fairscale},
      {"tsplit", "values leave, are made again or split into pieces, whichever costs the least time a byte where room lacks",
       "TSPLIT", plan_tsplit, tsplit_options()},
      {"stream", "weights, optimizer state and activations come while they are used, as time and link allow; the host updates too",
       kOurs, plan_stream, stream_options()},
      {"blend", "values are held, made again or leave, and weights stay or come: how much of each is searched together", kOurs,
       plan_blend, blend_options()},
      {"sft", "values too large for the memory exist in tiles only, between smaller ones that are stored", "SFT", plan_sft,
       sft_options(), true},
      {"overl", "the first layers run in rows or samples; rows that two tiles need are computed by both", "LR-CNN", plan_overl,
       lrcnn_options(), true},
      {"2ps", "the first layers run in rows or samples; rows that two tiles need are computed once", "LR-CNN", plan_two_ps,
       lrcnn_options(), true},
      {"overl-h", "as overl, with checkpoints between regions", "LR-CNN", plan_overl_h, lrcnn_options(), true},
      {"2ps-h", "as 2ps, with checkpoints between regions", "LR-CNN", plan_two_ps_h, lrcnn_options(), true},
  };
  return all;
}

}  // namespace outsize
