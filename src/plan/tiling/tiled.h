#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "plan/planner.h"
#include "plan/tiling/alike.h"
#include "plan/tiling/pass_cost.h"
#include "plan/tiling/regions.h"
#include "plan/tiling/remake.h"

namespace outsize {

// The tiles of one pass, tried against the memory that is left for it.
class PassTrial {
 public:
  // `limit`: bytes, or kNoLimit. `read_later`, and what is thrown, by fits() and may_fit(): as PassRoles.
  PassTrial(const PlanRequest& request, const Plan& plan, const Pass& pass, const IdSet<ValueId>& read_later, std::int64_t limit,
            PassMemory& memory)
      : request_(request),
        plan_(plan),
        pass_(pass),
        read_later_(read_later),
        limit_(limit),
        memory_(memory),
        kind_(memory.kind_of(plan, pass, read_later)) {}

  const Graph& graph() const { return request_.graph; }
  const Pass& pass() const { return pass_; }
  // Of the driver, which the tiles cut.
  const ValueType& driver() const { return graph().value(pass().driver).type; }
  std::int64_t limit() const { return limit_; }
  // The dimension that a pass over split weights is to be cut along (see plan/tiling/weights.h), or −1; and what it is cut in
  // multiples of: maps hold whole blocks of channels.
  int weight_dim() const;
  std::int64_t weight_unit() const;
  // Whether tiles of these extents of the driver are within the limit; with copies ahead also, whether they are many enough.
  bool fits(const Dims& extents);
  // Whether an inner tile of these extents fits, by a cheap estimate. Unlike fits(), it does not change which tiles were tried
  // last.
  bool may_fit(const Dims& extents);
  // Takes the workspace that the backend says the tiles tried last need for that of all tiles from here on. What was reckoned of
  // tiles without it no longer counts.
  void learn_workspace() {
    learned_ = extents_;
    workspace_.clear();
    least_ = std::numeric_limits<std::int64_t>::max();
  }

  // Of the tiles tried last.
  const Dims& extents() const { return extents_; }
  bool fitted() const { return fitted_; }
  const PassCost& cost() const { return cost_; }
  double seconds() const { return cost_.seconds; }
  // The fewest bytes of all tiles tried with the workspace that is known.
  std::int64_t least() const { return least_; }

 private:
  bool are_enough(const Dims& extents) const;
  TileLines& lines();
  const std::vector<std::int64_t>* workspace();

  const PlanRequest& request_;
  const Plan& plan_;
  const Pass& pass_;
  const IdSet<ValueId>& read_later_;
  const std::int64_t limit_;
  PassMemory& memory_;
  const std::int32_t kind_;
  std::optional<TileLines> lines_;       // where they were needed
  Dims learned_;                         // the extents that workspace was learned of; of rank 0: it is not known
  std::vector<std::int64_t> workspace_;  // by op of the pass, where it was needed
  Dims extents_;
  bool fitted_ = false;
  PassCost cost_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
};

// Finds tiles of a pass within the limit: those that the trial tried last. Returns whether there are any.
using CutPass = std::function<bool(PassTrial& trial)>;

// As many whole samples as can be, or parts of one sample, of the extents that take the least time.
bool cut_to_fastest(PassTrial& trial);

// A step that takes longer, several times what its ops take, is hardly wanted. The passes of such tilings run far more ops than the
// graph has, and take as much longer to work out: they are best looked at last, with what faster ones have come to.
// Infinity for graphs so small that this does not matter.
double hardly_wanted_seconds(const PlanRequest& request);

// How a step is tiled.
struct TiledChoice {
  Tiling tiling;
  enum class Halo : std::uint8_t {
    overlap,  // rows that two tiles need are computed by both
    share,    // they are computed once and carried on
  } halo = Halo::overlap;
  double most_seconds = std::numeric_limits<double>::infinity();  // a plan that takes longer is not wanted
  // What does not fit is not looked at further once it is known to need so many bytes.
  std::int64_t most_needed = std::numeric_limits<std::int64_t>::max();
  enum class Stream : std::uint8_t { none, inputs, all } stream = Stream::all;  // from host memory, of maps that only passes touch
  CutPass cut = cut_to_fastest;
  static constexpr std::int64_t kNoWeights = std::numeric_limits<std::int64_t>::max();
  std::int64_t split_from = kNoWeights;  // weights of so many bytes, with their states, are split where they can be
};

struct TiledPlan {
  Plan plan;
  double seconds = 0;           // of a step, as reckoned
  std::int64_t bytes = 0;       // of the device, as reckoned
  std::int64_t host_bytes = 0;  // of the host
};

// What came of a choice.
struct TiledAttempt {
  bool too_long = false;          // its ops alone take longer than is wanted: nothing else is known
  bool slow = false;              // it was given up because it would take longer than is wanted
  std::optional<TiledPlan> plan;  // nothing where no tiles that the choice allows fit, or it takes too long
  std::int64_t needed = 0;  // the bytes of the device that the pass or op takes which takes the most, of those that were tried
  OpId worst;               // that op, or the last of that pass; none where the run's weights are not where the tiling wants them
  std::int64_t host_needed = 0;  // the bytes of the host that the plan would stream from there
};

// What those attempts of a search lacked that came to nothing.
class Lacking {
 public:
  // Takes one without a plan: it lacked room on the host where it would have fitted the device, else room on the device.
  void add(const PlanRequest& request, const TiledAttempt& attempt);

  bool empty() const { return !worst_ && !host(); }
  // Whether one would have fitted the device.
  bool host() const { return least_host_ != kNone; }
  // The fewest bytes of the device that the others would have needed; where there are none, more than any.
  std::int64_t device_bytes() const { return least_; }
  // The refusal of the search: for the host where that was all that one lacked. `last`: the op at the peak where none is known.
  Refusal refusal(const PlanRequest& request, std::string_view planner, OpId last) const;

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_ = kNone, least_host_ = kNone;
  OpId worst_;
};

// Along what a network is cut: samples and space where most of what it makes are maps, samples where it is not, or samples and the
// tokens of [N, T, C].
enum class Cut : std::uint8_t { space, samples, tokens };
// Space or samples.
Cut cut_of(const Graph& graph);

// Whether an op can run box by box so: it makes or reduces values of which each such part stands by itself.
bool can_tile(const Graph& graph, OpId op, Cut cut);

// The tiling of these ops with these values stored between passes (both by id): backward is cut where forward is.
Tiling tiling_of(const PlanRequest& request, IdVector<OpId, bool> tiled, IdVector<ValueId, bool> cuts, Remake remake);

// The fastest tiled plan of that choice within the budget. `memory`: of the request, for all its choices.
TiledAttempt tiled_plan(const PlanRequest& request, std::string_view planner, const TiledChoice& choice, PassMemory& memory);

// The weights that can be split and have, with their states, at least so many bytes; where the run has given them a home, those
// that it has given another than the device.
std::vector<ValueId> weights_from(const PlanRequest& request, const Plan& plan, std::int64_t bytes);

// The bytes that plans may take of the host: the budget's, or all that the device's host has.
std::int64_t host_limit(const PlanRequest& request);

}  // namespace outsize
