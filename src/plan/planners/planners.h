#pragma once

#include "plan/planner.h"

// All planners, in the order of `outsize compare`. Each is a file of its own, named after it, and a line in registry.cpp.
namespace outsize {

// Everything stays on the device from its production to its last use, as frameworks do.
Planned<Plan> plan_keep(const PlanRequest& request);

// As `keep`, but what a bandwidth-bound op makes in forward is dropped after its last forward use and made again before its first
// backward use, from inputs that are kept until then anyway. Bitwise equal to `keep`.
Planned<Plan> plan_recompute_cheap(const PlanRequest& request);

// Checkpointing (Chen et al. 2016): only the values between segments of the network outlive forward; backward makes the rest of a
// segment again. The number of segments, where it is not given, is swept as users of PyTorch do, and the dynamic programme for
// heterogeneous chains (Beaumont et al., RR-9302) is asked what to drop and when, of three chains: the inside of a group and what
// leads out of it together, apart, or the inside always made again. Of all that fit, the fastest is taken; without a budget √n
// segments. The programme takes time with groups³ · slots: groups of a long network are put together until at most 64 are left, and
// there are 300 slots.
Planned<Plan> plan_checkpoint(const PlanRequest& request);
std::vector<PlannerOption> checkpoint_options();

// Greedy (Beaumont et al. 2020, Theorem 2 rounded up): the first activations of the network leave, as many as the peak exceeds the
// budget by.
Planned<Plan> plan_greedy(const PlanRequest& request);

// DynProg (Beaumont et al. 2020, Algorithm 1 in slots): the activations whose leaving costs the least idle time; below the
// least memory of the algorithm's model, those of Greedy.
Planned<Plan> plan_dynprog(const PlanRequest& request);
std::vector<PlannerOption> dynprog_options();

// vDNN as the offload paper has it: the activations with the most time a byte to hide their copy behind, at the threshold given or
// over all thresholds, all and every other of them; at the lowest as `vdnn-all` where the chain's model refuses.
Planned<Plan> plan_vdnn(const PlanRequest& request);
std::vector<PlannerOption> vdnn_options();

// vDNN-all (Rhu et al. 2016, as TSPLIT has it): every activation that backward reads waits in host memory in between.
Planned<Plan> plan_vdnn_all(const PlanRequest& request);

// vDNN-conv: the inputs of convolutions wait in host memory between forward and backward; all else stays.
Planned<Plan> plan_vdnn_conv(const PlanRequest& request);

// Offloading by a ratio (LR-CNN's baseline): the first activations, in the order they are made, wait in host memory: the share
// given, rounded up, or as many as the budget asks for; with no budget none.
Planned<Plan> plan_offload_ratio(const PlanRequest& request);
std::vector<PlannerOption> offload_ratio_options();

// SuperNeurons (Wang et al. 2018): results of convolutions and other matrix products are swapped, cheap ones made again in
// backward. What was made again is held for its other readers (speed-centric) or made again for each (memory-centric), as the
// option says. Without it, all is held if that fits, else as much as fits, the least recently used going first (TSPLIT's LRU).
Planned<Plan> plan_superneurons(const PlanRequest& request);
std::vector<PlannerOption> superneurons_options();

// TFLMS (Le et al. 2018). An edge is an op that makes a value, and one that reads it; its length is the difference of their levels.
// Edges from forward to backward that are longer than one level are rewritten (and, with swap_branches, edges inside forward longer
// than branch_threshold and than one level); those of variables never are. A value with such an edge starts to leave as soon as it
// is made, once, and ends on the device when it has left and its other readers have run: no op waits for that. It comes back for
// each rewritten edge, or with fuse_swapins for those that are close, after a control operation (LeveledGraph), or, where there is
// none, at the read itself, and ends with the read. The chain rule finds ops of backward only, so that edges inside forward take
// the direct order in either strategy. A value is on the device once: stays that touch or overlap are one, and a value with one
// stay does not leave.
//
// The n_tensors first values in breadth-first order leave, and come back `lb` levels early. What of both is not given is searched
// as section 5.2 has it: for each lb of a list, the fewest values that fit (by halving, since more of them hardly ever need more),
// and of these plans the one with the least estimated time. Throws UserError for a scope, op or type that there is not.
Planned<Plan> plan_tflms(const PlanRequest& request);
// The parameters of the paper's Table 2, by its names, and the closeness that fuse_swapins leaves open. `graph` is the model, and
// `optimizer_scopes` says what the phases of ops say here.
std::vector<PlannerOption> tflms_options();

// AutoSwap: the activations with the highest score leave until the load fits. Weights of a combined score are searched, where the
// paper uses Bayesian optimization, over all multiples of a quarter that sum to one, then from the best of them in steps of an
// eighth and a sixteenth from one weight to another as long as that helps; what counts is the estimated time. With no budget
// nothing leaves.
Planned<Plan> plan_autoswap(const PlanRequest& request);
std::vector<PlannerOption> autoswap_options();

// ZeRO-Offload (Ren et al. 2021) in f32: optimizer state and the weights that are updated live on the host, where the updates run;
// gradients go there as they are made. Each weight is brought to the device once a step, before its first use, and stays until its
// last; activations stay.
Planned<Plan> plan_zero_offload(const PlanRequest& request);

// FairScale's OffloadModel: weights and optimizer state live in host memory and are on the device only around the ops that read
// them, shard by shard; activations between layers wait in host memory; gradients go to the host, where the updates run.
Planned<Plan> plan_fairscale(const PlanRequest& request);

// TSPLIT (Nie et al., ICDE 2022), with the corrections of its equations: ops run in the order of Algorithm 1, and Algorithm 2 walks
// over them. Where one lacks room, of all values that wait through it the one leaves (equation 3, by what other copies leave of the
// link) or is made again (4), or of the values that it reads or makes itself the one is split into pieces along samples, tokens or
// rows (5, 6), whose seconds a byte gained are the fewest; again and again until there is room.
//
// A split value is never whole on the device: the ops that touch it run piece by piece, and what other ops are to read of it waits
// in host memory. So a split gains all but its pieces, where the paper's gains what the pieces of an input leave to an output; and
// values that an op makes are split as well as those that it reads. Costs of pieces are those of the calls that would run.
Planned<Plan> plan_tsplit(const PlanRequest& request);
std::vector<PlannerOption> tsplit_options();

// Weights, gradients and optimizer state that do not fit: persistent values stay, or live in a lower tier and come for the runs
// that read them; their updates run on the device or the host; activations wait in a lower tier or are made again in whatever
// memory is left. Bitwise equal to `keep`, but where a value as large as logits is taken piece by piece. docs/planners.md says how
// it decides.
Planned<Plan> plan_stream(const PlanRequest& request);
std::vector<PlannerOption> stream_options();

// SFT (Listings 1 to 4 as corrected): values too large for the memory exist in tiles only, from the last value before them that is
// stored to the first after them; the rest runs on whole values. Refused where no segments and tiles fit.
Planned<Plan> plan_sft(const PlanRequest& request);
std::vector<PlannerOption> sft_options();

// LR-CNN's OverL: the first layers run row by row, each row with the overlap it needs.
Planned<Plan> plan_overl(const PlanRequest& request);

// LR-CNN's 2PS: the first layers run row by row, and rows that the next needs too are carried to it.
Planned<Plan> plan_two_ps(const PlanRequest& request);

// LR-CNN's OverL-H: as OverL, between checkpoints.
Planned<Plan> plan_overl_h(const PlanRequest& request);

// LR-CNN's 2PS-H: as 2PS, between checkpoints.
Planned<Plan> plan_two_ps_h(const PlanRequest& request);

// Results of forward are made again in backward, on any graph, found as a sequence of runs: by eviction that knows all later uses,
// with many weights, by what cheapest cuts between forward and backward hold, and by annealing of the fastest of these. Nothing
// leaves the device.
Planned<Plan> plan_remake(const PlanRequest& request);
std::vector<PlannerOption> remake_options();

// What `remake` and `stream` do, together: sequences in which results are made again within limits above the memory, and what
// exceeds it waits in a lower tier; persistent values as in `stream`. How far above, and which persistent values stay, is searched.
Planned<Plan> plan_blend(const PlanRequest& request);
std::vector<PlannerOption> blend_options();

// plan_vdnn_all() by the name of another planner.
Planned<Plan> plan_all_away(const PlanRequest& request, std::string_view planner);

}  // namespace outsize
