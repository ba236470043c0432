#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.h"
#include "base/id_vector.h"
#include "plan/plan.h"

namespace outsize {

// Where passes after the one that makes a value find it. Backward is all passes from the first on that runs an op of backward.
enum class Stored : std::uint8_t {
  never,       // nowhere: each makes it again, from what is stored
  forward,     // those of forward find it stored; each of backward makes it again
  each_phase,  // the same, but the first of backward that makes it again stores it for those after
  always,
};

// What of a training step runs tile by tile, and what of it waits between passes.
struct Tiling {
  IdVector<OpId, bool> tiled;        // by op: runs in a pass; the others run on whole values
  IdVector<ValueId, bool> cuts;      // by value: nothing reads it before the pass that makes it is over
  IdVector<ValueId, Stored> stored;  // by value. Cuts, results of reductions and what runs on whole values read are always stored

  auto operator<=>(const Tiling&) const = default;
};

// The number of the pass each op runs in, or before which it runs on whole values: the smallest that dependences allow. A reduction
// (batch statistics, a weight's gradient, the loss) is complete after its pass, so that what reads it runs in a later one.
IdVector<OpId, std::int32_t> pass_numbers(const Graph& graph, const Tiling& tiling);

// The first pass of backward, or the number of passes where there is none.
std::int32_t first_of_backward(const Graph& graph, const Tiling& tiling, const IdVector<OpId, std::int32_t>& numbers);

// By value, whether it must be stored so that forward runs each op once but for cheap ones, and backward too: values of tiled ops
// that later passes of the same phase read. What backward alone reads of forward is not among them.
IdVector<ValueId, bool> read_in_phase(const Graph& graph, const Tiling& tiling);

// `stored` of a tiling that stores just these: of forward, as long as `how` says; gradients always, unless nothing is stored.
IdVector<ValueId, Stored> stored_in_phase(const Graph& graph, const Tiling& tiling, Stored how = Stored::always);

// The plan of a tiling: its passes in order, each with one tile and the driver that its grid is to cut, and between them what runs
// on whole values. Any grid of any pass is right. All values live on the device until the caller gives them other homes.
Plan plan_of(const Graph& graph, const Tiling& tiling, std::string planner);

// The same, or nothing where its runs take longer than `most` seconds if each takes what it does on whole values: a tiling that
// makes much again may run an op in each of thousands of passes, and is given up when it is known to.
std::optional<Plan> plan_within(const Graph& graph, const Tiling& tiling, std::string planner,
                                const IdVector<OpId, double>& seconds_of_ops, double most);

// The seconds of those runs; infinity where they are more than `most`.
double seconds_of_tiling(const Graph& graph, const Tiling& tiling, const IdVector<OpId, double>& seconds_of_ops, double most);

// The value that the tiles of a pass of these ops are cut of: one that no other of them reads but reductions, of the fewest
// elements, so that its rows are whole numbers of rows upstream. `leaves`: whether something after the pass reads a value that it
// makes.
ValueId driver_of(const Graph& graph, const std::vector<OpId>& ops, const std::function<bool(ValueId)>& leaves);

// Maps and other large values that only passes touch and that outlive one (or come from before all): they may live in a lower tier
// and be streamed
// (`Plan::home`). `later`: values_read_later of the plan.
std::vector<ValueId> streamable(const Graph& graph, const Plan& plan, const std::vector<IdSet<ValueId>>& later);

// The pass with every row of its maps computed once.
Pass with_shared_rows(const Graph& graph, Pass pass);

// The pass driven by the gradient that leads into it: what follows is pushed, the exact adjoint of what a tile of forward computes.
// Nothing where several lead in.
std::optional<Pass> with_pushed_gradients(const Graph& graph, Pass pass);

}  // namespace outsize
