#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/analysis/groups.h"
#include "plan/analysis/order.h"
#include "plan/chain/graph_chain.h"
#include "plan/planners/planners.h"
#include "plan/swap/recompute.h"
#include "plan/swap/spill.h"

namespace outsize {

namespace {

constexpr PlannerOption kCheckpointSegments{.name = "segments",
                                            .initial = "",
                                            .help = "segments of the network, one a layer at most [the fastest that fit; √n]",
                                            .least = 1};

}  // namespace

namespace {

// Of the dynamic programme.
constexpr std::size_t kMostGroups = 64;
constexpr int kSlots = 300;
// What the chain takes is not what the graph takes, which has branches and reads some values later than a chain can say; and sizes
// in slots are rounded up. So the memory that it is given is sought, up to so many times less and more than there is: the most
// whose steps fit the graph, since those are the fastest.
constexpr double kReach = 2;
constexpr int kAttempts = 8;

// More segments than this are not tried one by one but in steps.
constexpr std::int64_t kTried = 48;

// Everything that forward makes but the values between `segments` equal runs of groups, and all of the last one, which backward
// begins with at once.
IdVector<ValueId, bool> dropped_by(const Graph& graph, const std::vector<Group>& groups, std::int64_t segments) {
  IdVector<ValueId, bool> dropped(graph.value_count(), false);
  const auto count = static_cast<std::int64_t>(groups.size());
  const std::int64_t last = (segments - 1) * count / segments;
  for (std::int64_t g = 0; g < last; ++g) {
    const Group& group = groups[g];
    for (OpId id : group.forward)
      for (ValueId output : graph.op(id).outputs)
        // Statistics are small, and to make them again would take another pass over what they are of.
        dropped[output] = graph.value(output).role != Role::statistic;
  }
  for (std::int64_t s = 1; s < segments; ++s) {
    const std::int64_t boundary = s * count / segments;
    if (boundary == 0) continue;
    if (const ValueId kept = groups[boundary - 1].output) dropped[kept] = false;
  }
  return dropped;
}

// How groups become layers of a chain.
enum class Insides : std::uint8_t {
  with_boundary,  // what is made inside and backward reads is one with what leads out
  apart,          // it is a layer of its own, after which one leads out: that one can be made again from the inside alone
  made_again,     // only what leads out is held; backward makes the inside again
};

// The chain that the dynamic programme is given, and what its layers are in the graph.
class CheckpointChain {
 public:
  CheckpointChain(const Graph& graph, const OpCosts& costs, const std::vector<Group>& groups, const GraphChain& of, Insides insides)
      : graph_(graph), costs_(costs), groups_(groups), of_(of), insides_(insides), bytes_(graph.value_count(), 0) {
    for (const Life& life : of_.lives.all) bytes_[life.value] = life.bytes;
    chain_.x.push_back(of_.chain.x[0]);
    chain_.y.push_back(of_.chain.y[0]);
    const std::size_t parts = std::min(groups_.size(), kMostGroups);
    // The loss may take the place of what it reads, which a chain cannot say: it is one with the group before it.
    const std::size_t last = parts > 1 ? parts - 2 : 0;
    for (std::size_t k = 0; k < last; ++k) add(k * groups_.size() / parts, (k + 1) * groups_.size() / parts);
    add(last * groups_.size() / parts, groups_.size());
  }

  const Chain& chain() const { return chain_; }
  const std::vector<RecomputeLayer>& layers() const { return layers_; }

 private:
  void add(std::size_t first, std::size_t last) {
    const ValueId output = groups_[last - 1].output;
    std::vector<ValueId> inside;
    std::vector<OpId> backward;
    bool output_is_read = false;
    for (std::size_t g = first; g < last; ++g) {
      for (ValueId value : groups_[g].saved)
        if (value == output)
          output_is_read = true;
        else if (graph_.value(value).role != Role::statistic)
          inside.push_back(value);
      backward.insert(backward.end(), groups_[g].backward.begin(), groups_[g].backward.end());
    }
    const auto [inside_seconds, output_seconds] = seconds(first, last, inside);
    const std::int64_t inside_bytes = bytes_of(inside), output_bytes = output ? bytes_of({output}) : 0;
    // What the groups need beside all x up to their last, and the y that lead in and out.
    const Chain& chain = of_.chain;
    const auto most = [&](const std::vector<std::int64_t>& bytes) {
      return *std::max_element(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                               bytes.begin() + static_cast<std::ptrdiff_t>(last));
    };
    const std::int64_t counted =
        std::accumulate(chain.x.begin(), chain.x.begin() + static_cast<std::ptrdiff_t>(last) + 1, std::int64_t{0});
    const std::int64_t forward_extra = std::max<std::int64_t>(0, most(of_.forward_bytes) - counted);
    const std::int64_t backward_extra =
        std::max<std::int64_t>(0, most(of_.backward_bytes) - counted - chain.y[first] - chain.y[last]);
    const double backward_seconds = std::accumulate(chain.backward.begin() + static_cast<std::ptrdiff_t>(first),
                                                    chain.backward.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
    if (!output || insides_ == Insides::with_boundary) {
      if (output) inside.push_back(output);
      add_layer({std::move(inside), std::move(backward)}, inside_seconds + output_seconds, backward_seconds,
                inside_bytes + output_bytes, chain.y[last], forward_extra, backward_extra);
    } else if (insides_ == Insides::apart) {
      // Backward runs with the first layer, and the gradient that leads in is there until then.
      add_layer({std::move(inside), std::move(backward)}, inside_seconds, backward_seconds, inside_bytes, 0,
                forward_extra + output_bytes, backward_extra + chain.y[last] + (output_is_read ? output_bytes : 0));
      add_layer({{output}, {}}, output_seconds, 0, output_bytes, chain.y[last], forward_extra, 0);
    } else {
      add_layer({{output}, std::move(backward)}, inside_seconds + output_seconds, backward_seconds + inside_seconds, output_bytes,
                chain.y[last], forward_extra + inside_bytes, backward_extra + inside_bytes);
    }
  }

  void add_layer(RecomputeLayer layer, double forward, double backward, std::int64_t x, std::int64_t y, std::int64_t forward_extra,
                 std::int64_t backward_extra) {
    layers_.push_back(std::move(layer));
    chain_.forward.push_back(forward);
    chain_.backward.push_back(backward);
    chain_.x.push_back(x);
    chain_.y.push_back(y);
    chain_.forward_extra.push_back(forward_extra);
    chain_.backward_extra.push_back(backward_extra);
  }

  std::int64_t bytes_of(const std::vector<ValueId>& values) const {
    std::int64_t sum = 0;
    for (ValueId value : values) sum += bytes_[value];
    return sum;
  }

  // Of the ops that `inside` needs, and of the others. Statistics are not made again.
  std::pair<double, double> seconds(std::size_t first, std::size_t last, const std::vector<ValueId>& inside) const {
    IdVector<ValueId, bool> needed(graph_.value_count(), false);
    for (ValueId value : inside) needed[value] = true;
    std::pair<double, double> sums;
    for (std::size_t g = last; g-- > first;)
      for (std::size_t k = groups_[g].forward.size(); k-- > 0;) {
        const OpId id = groups_[g].forward[k];
        const Op& op = graph_.op(id);
        const bool counts = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) { return needed[output]; });
        (counts ? sums.first : sums.second) += costs_.seconds[id];
        if (counts)
          for (ValueId input : op.inputs) needed[input] = graph_.value(input).role != Role::statistic;
      }
    return sums;
  }

  const Graph& graph_;
  const OpCosts& costs_;
  const std::vector<Group>& groups_;
  const GraphChain& of_;
  Insides insides_;
  IdVector<ValueId, std::int64_t> bytes_;  // by value
  Chain chain_;
  std::vector<RecomputeLayer> layers_;
};

// Takes the fastest runs that fit, or while none does, the smallest.
class Best {
 public:
  Best(const PlanRequest& request, const OpCosts& costs) : request_(request), costs_(costs) {}

  // Returns the bytes by which the runs exceed the budget.
  std::int64_t consider(Runs runs) {
    Lives lives = lives_of(request_, costs_, runs);
    const Table<std::int64_t> bytes = tightest_bytes(request_, lives, {runs});
    const std::int64_t peak = bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
    const double seconds = std::accumulate(lives.seconds.begin(), lives.seconds.end(), 0.0);
    const std::int64_t excess = std::max<std::int64_t>(0, peak - limit_of(request_));
    if (!found_ || std::pair(excess, seconds) < std::pair(excess_, seconds_)) {
      found_ = true;
      excess_ = excess;
      seconds_ = seconds;
      runs_ = std::move(runs);
      lives_ = std::move(lives);
    }
    return excess;
  }

  bool runs_nothing_again() const {
    return found_ && excess_ == 0 && static_cast<std::int64_t>(runs_.size()) == request_.graph.op_count();
  }
  Planned<Plan> plan() && { return spill_plan(request_, "checkpoint", lives_, {std::move(runs_)}); }

 private:
  const PlanRequest& request_;
  const OpCosts& costs_;
  bool found_ = false;
  std::int64_t excess_ = 0;
  double seconds_ = 0;
  Runs runs_;
  Lives lives_;
};

}  // namespace

Planned<Plan> plan_checkpoint(const PlanRequest& request) {
  const Graph& graph = request.graph;
  const std::vector<Group> groups = groups_of(graph);
  const OpCosts costs = costs_of(request);
  const auto count = static_cast<std::int64_t>(groups.size());
  const std::vector<OpId> order = eager_order(graph);
  Best best(request, costs);
  const auto consider = [&](std::int64_t segments) {
    best.consider(with_recomputation(graph, dropped_by(graph, groups, segments), Again::held, {}, order));
  };
  const bool given = request.options.has(kCheckpointSegments);
  const std::int64_t segments =
      given ? request.options.integer(kCheckpointSegments) : std::llround(std::sqrt(static_cast<double>(count)));
  consider(std::clamp<std::int64_t>(segments, 1, std::max<std::int64_t>(count, 1)));
  if (!request.limited() || given) return std::move(best).plan();

  for (std::int64_t k = 1; k <= std::min(count, kTried); ++k)
    consider(count <= kTried ? k : 1 + (k - 1) * (count - 1) / (kTried - 1));
  if (best.runs_nothing_again()) return std::move(best).plan();
  const GraphChain of = chain_of(request);
  for (const Insides insides : {Insides::with_boundary, Insides::apart, Insides::made_again}) {
    const CheckpointChain made(graph, costs, groups, of, insides);
    const double memory = static_cast<double>(std::max<std::int64_t>(limit_of(request) - of.fixed, 1));
    double too_small = memory / kReach, too_large = memory * kReach;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double middle = attempt == 0 ? memory : std::sqrt(too_small * too_large);
      const auto steps = optimal_checkpoint_steps(made.chain(), static_cast<std::int64_t>(std::ceil(middle)), kSlots);
      const bool fits = steps && best.consider(with_chain_steps(graph, made.layers(), *steps, order)) == 0;
      (fits || !steps ? too_small : too_large) = middle;
    }
  }
  return std::move(best).plan();
}

std::vector<PlannerOption> checkpoint_options() { return {kCheckpointSegments}; }

}  // namespace outsize
