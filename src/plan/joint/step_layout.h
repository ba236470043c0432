#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/swap/absences.h"
#include "plan/swap/residence.h"
#include "plan/tiling/large_values.h"
#include "plan/tiling/weights.h"

namespace outsize {

// Lays out steps on whole values, and keeps the best: the fastest by estimate of those that fit, or what exceeds the memory by the
// least. A step is given as its runs and the residence of persistent values; what leaves the device, when, and which updates go row
// by row, follows from them.
class StepLayout {
 public:
  // `planner`: who asks, for plans and refusals.
  StepLayout(const PlanRequest& request, std::string_view planner);

  // Of the device, in which everything is to fit.
  std::int64_t limit() const { return limit_; }
  const OpCosts& costs() const { return costs_; }
  // Of all ops, those around a large value side by side.
  const std::vector<OpId>& order() const { return large_ ? large_->order : order_; }

  // Lays out a step. Returns whether it is the best so far.
  bool consider(Runs runs, const Residence& residence);
  // Whether a plan was found that fits.
  bool found() const { return best_.has_value(); }
  // Of the best plan, as estimated; without one, infinity.
  double seconds() const { return least_seconds_; }
  // The best plan, or the refusal of what came nearest.
  Planned<Plan> take();

  // From here on takes a large value in pieces, as logits, where there is one and something could be gained; that changes the order
  // in which numbers are summed, so that a plan must be worth it. Returns whether there is.
  bool take_apart();
  const LargeValue* large() const { return large_ ? &*large_ : nullptr; }
  // From here on has large weights on the device in rows or columns only. Returns whether there are any.
  bool stream_weights();

 private:
  double work_seconds(const SpillChoice& choice) const;
  double link_seconds(const Absences& absences) const;
  void split_updates(SpillChoice& choice);
  const SplitRun& split_update(OpId id, std::int64_t pieces, const IdVector<ValueId, bool>& away);
  void join_gradients(Runs& runs) const;
  void place_streamed(SpillChoice& choice) const;
  std::int64_t pieces_of(const std::vector<OpId>& ops, std::int64_t extent, std::int64_t wanted) const;
  void split_weight(ValueId weight, const WeightUses& uses, SpillChoice& choice);
  void split_large(SpillChoice& choice) const;

  const PlanRequest& request_;
  const Graph& graph_;
  const std::string_view planner_;
  const OpCosts costs_;
  const std::vector<OpId> order_;
  const Residents residents_;
  const std::int64_t limit_;
  std::map<std::pair<OpId, std::vector<bool>>, SplitRun> split_updates_;  // by the update and which of its inputs are away
  std::optional<LargeValue> large_;                                       // where it is to be taken apart
  SplitRun large_run_;                                                    // the run that does
  std::vector<std::pair<ValueId, WeightUses>> streamed_;                  // weights that are never whole on the device
  std::map<OpId, std::optional<SplitRun>> weight_runs_;                   // of the ops that touch them
  std::int64_t least_excess_ = std::numeric_limits<std::int64_t>::max();
  double least_seconds_ = std::numeric_limits<double>::infinity();
  std::optional<Plan> best_;
  std::optional<Refusal> refusal_;
};

}  // namespace outsize
