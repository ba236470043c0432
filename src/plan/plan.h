#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "outsize/budget.h"
#include "outsize/error.h"

namespace outsize {

// A pass: a list of ops run tile by tile. The driver is one value of the pass; its grid cuts it into tiles. In each tile,
//   - what the driver's tile needs upstream is computed by gather (windows, with halo),
//   - what lies downstream of the driver (reductions, gradients) is computed by push from the driver's tile: the exact adjoint of
//     the tile's function; results that leave the tile are combined over tiles.
// Values that only this pass makes and uses live in the tile. A value made here that a later step reads is stored (owned boxes)
// or accumulated whole in its home tier; a value made elsewhere is read window by window.
// Sharing: the rows of a value in `share` are computed once; the rows that the next tile needs again are carried to it.
//   ascending, gradients pushed:   forward passes
//   descending (order=down):       backward, tiles N → 1; the activations' carried rows were saved by the pass `saved_by`, and
//                                  gradients of carried rows flow to the next tile (LR-CNN's 2PS)
//   ascending, gradients=gather:   backward in forward order; each gradient is computed as far as its inputs reach (its front
//                                  lags), and what lies between the fronts is carried
struct Pass {
  std::string name;  // "region.pass"
  std::vector<OpId> ops;
  ValueId driver;
  std::vector<std::vector<std::int64_t>> cuts;  // per dimension of the driver: the inner tile boundaries, ascending
  bool descending = false;
  bool gather_gradients = false;
  std::vector<ValueId> share;
  // Values that the pass makes again for itself alone: a step after it reads what was made of them before.
  std::vector<ValueId> inner;
  std::string saved_by;          // with `descending` and `share`: the earlier pass that saves the carried rows
  Tier saved_in = Tier::device;  // where they wait
  // Streamed windows are loaded while the tile before runs, and results stored while the next one does: each has two places.
  bool ahead = false;

  bool operator==(const Pass&) const = default;
};

// The steps of a plan, in issue order. A read takes the value's newest device piece. Lowering decides nothing but addresses: where
// pieces lie, and which take over the bytes of others (in place, or tile by tile as in plan/tiles/takeover.h).
struct RunStep {  // runs an op on whole values; running it again is a recomputation
  OpId op;
  Tier where = Tier::device;  // host: an update of values that live there, by the host's processor
  bool operator==(const RunStep&) const = default;
};
struct OutStep {  // starts to copy a value's device piece to a lower tier; the device piece ends at the next `drop`, or here
  ValueId value;
  Tier tier = Tier::host;
  bool operator==(const OutStep&) const = default;
};
struct InStep {  // starts to copy it back into a new device piece
  ValueId value;
  bool operator==(const InStep&) const = default;
};
struct DropStep {  // ends the value's device piece here, not before
  ValueId value;
  bool operator==(const DropStep&) const = default;
};
struct PassStep {
  int pass = 0;
  bool operator==(const PassStep&) const = default;
};
using Step = std::variant<RunStep, OutStep, InStep, DropStep, PassStep>;

// Which of the target's kernels computes an op: the name of an alternative (cost/target.h).
struct KernelChoice {
  std::string name;
  // It is another kernel than the one that is taken where nothing is chosen: results are the same to rounding only.
  bool rounding = false;
  bool operator==(const KernelChoice&) const = default;
};

// The decisions. Without a drop, a piece ends at its last use.
struct Plan {
  std::string name;     // of the graph it is for
  std::string planner;  // who made it
  std::vector<Step> steps;
  std::vector<Pass> passes;
  std::map<ValueId, Tier> home;  // values that are never whole on the device: `stream` lines
  // By op, for all of its calls; an op that is not here is computed by the target's first kernel.
  std::map<OpId, KernelChoice> kernels;
  std::string file;                 // of a plan that was read: the file's name, for messages
  std::vector<std::int64_t> lines;  // of a plan that was read: by step, the line of the file that it stands in

  Tier home_of(ValueId value) const {
    const auto found = home.find(value);
    return found == home.end() ? Tier::device : found->second;
  }
};

// Whether results are known to equal the unlimited run's to rounding only, not to the bit: an op is computed by another kernel, or
// runs in a pass and may sum in another order there. Updates in passes, as row by row, sum nothing.
bool rounds(const Graph& graph, const Plan& plan);

// Where a value lives when a pass has made it: a new version of a persistent value takes the place of the old one.
inline Tier home_of(const Graph& graph, const Plan& plan, ValueId value) {
  const ValueId old = graph.value(value).version_of;
  return plan.home_of(old ? old : value);
}

// The text form, one step a line; round-trips, and can be written by hand:
//
//   plan skeleton by hand
//   stream x source
//   stream z host
//   kernel conv2 jit:avx2 rounding
//   run conv1
//   run conv1.weight.sgd host
//   out z disk
//   drop z
//   in z
//   pass r.f2 driver=pooled grid=[1, 1, 4, 1] order=up share=[y, z] ops=[conv1, bn.apply, conv2, pool]
//
// In a hand-written plan `until OP` runs whatever the default order has before OP and no line above has run, and `rest` all that
// is left; both are printed as the runs they stand for. `grid` counts tiles a dimension (as even as can be); `cuts.2=[5, 9]` gives
// uneven boundaries of dimension 2 instead.
std::string print_plan(const Graph& graph, const Plan& plan);

// What is wrong with a plan, in a message that begins with where that is: its file and line, or its step.
class PlacedError : public UserError {
 public:
  using UserError::UserError;
};
// Throws PlacedError "FILE:LINE: …" naming the op or value that does not exist.
Plan parse_plan(const Graph& graph, std::string_view text, std::string_view file);

// Every use has a producer, a copy-in or a recomputation before it; every op that changes state runs exactly once; a reduction is
// complete before it is read; every graph output is there at the end. Throws PlacedError naming op, value and step, or "FILE:LINE:
// …" of a plan that was read.
void check_plan(const Graph& graph, const Plan& plan);

}  // namespace outsize
