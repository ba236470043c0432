#include "plan/tiling/tiled_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/bytes.h"
#include "plan/analysis/groups.h"
#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// By op, the group that it, or what it is the gradient of, belongs to; beyond all groups where it cannot be tiled.
IdVector<OpId, std::size_t> tileable_groups(const Graph& graph, const std::vector<Group>& groups, Cut cut) {
  IdVector<OpId, std::size_t> group_of(graph.op_count(), groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const std::vector<OpId>* ops : {&groups[g].forward, &groups[g].backward})
      for (OpId op : *ops)
        if (can_tile(graph, op, cut)) group_of[op] = g;
  return group_of;
}

// The ops that make or read the largest of what can be cut into tokens: logits of many words, where there are such.
IdVector<OpId, bool> ops_of_largest(const Graph& graph) {
  std::int64_t most = 0;
  for (const Value& value : graph.values())
    if (value.role == Role::activation) most = std::max(most, value.type.elements());
  IdVector<OpId, bool> tiled(graph.op_count());
  for (std::int64_t o = 0; o < graph.op_count(); ++o) {
    const Op& op = graph.op(OpId(o));
    const auto is_largest = [&](ValueId value) {
      return !graph.value(value).persistent() && 2 * graph.value(value).type.elements() > most;
    };
    const bool touches = std::any_of(op.inputs.begin(), op.inputs.end(), is_largest) ||
                         std::any_of(op.outputs.begin(), op.outputs.end(), is_largest);
    tiled[OpId(o)] = touches && can_tile(graph, OpId(o), Cut::tokens);
  }
  return tiled;
}

// Groups after which maps are smaller than before: where a region may well end.
std::vector<std::int64_t> narrows(const Graph& graph, const std::vector<Group>& groups) {
  std::vector<std::int64_t> found;
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    if (!groups[g].input || !groups[g].output) continue;
    const ValueType& in = graph.value(groups[g].input).type;
    const ValueType& out = graph.value(groups[g].output).type;
    if (out.format != Format::map) continue;
    std::int64_t before = 1, after = 1;
    for (int dim = 2; dim < std::min(in.shape.rank(), out.shape.rank()); ++dim) before *= in.shape[dim], after *= out.shape[dim];
    if (after < before) found.push_back(static_cast<std::int64_t>(g) + 1);
  }
  return found;
}

class Searcher {
 public:
  Searcher(const PlanRequest& request, std::string_view planner, const TiledSearch& search)
      : request_(request),
        graph_(request.graph),
        planner_(planner),
        search_(search),
        memory_(request),
        groups_(groups_of(graph_)),
        ends_(narrows(graph_, groups_)),
        layers_(ends_),
        // Without a lower tier only what comes from the data can be streamed.
        first_(search.stream.value_or(request.has_lower_tier() ? Stream::all : Stream::inputs)),
        about_(request.budgets.host < kNoLimit ? 1 : 1.05),
        patience_(hardly_wanted_seconds(request)),
        remake_(search.remake.value_or(Remake::none)) {
    tileable_.push_back(tileable_groups(graph_, groups_, cut_of(graph_)));
    if (has_tokens()) tileable_.push_back(tileable_groups(graph_, groups_, Cut::tokens));
    const auto count = static_cast<std::int64_t>(groups_.size());
    layers_.push_back(count);
    if (search.layers > 0) layers_ = {std::min(search.layers, count)};
    if (search.stream)
      streams_ = {first_};
    else if (request.has_lower_tier())
      streams_ = {Stream::all, Stream::inputs, Stream::none};
    else
      streams_ = {Stream::inputs, Stream::none};
  }

  Planned<Plan> run() {
    if (consider_whole()) return std::move(best_->plan);  // no tiles are faster than none
    // Streaming all asks for the least of the device and the most of the host: where all is stored, less is tried of the best
    // tiling, or where the host lacks room.
    for (const Stream stream : streams_) {
      if (best_ && remake_ == Remake::none)
        consider(Tiling(best_tiling_), stream);
      else if (stream == first_ || host_lacks() || remake_ != Remake::none)
        consider_all(stream);
    }
    make_again();
    split_weights();
    if (!best_) return lacking_.refusal(request_, planner_, groups_.back().forward.back());
    return std::move(best_->plan);
  }

 private:
  using Stream = TiledChoice::Stream;

  bool has_tokens() const { return cut_of(graph_) == Cut::samples; }
  bool host_lacks() const { return !best_ && lacking_.host(); }
  IdVector<ValueId, bool> no_cuts() const { return IdVector<ValueId, bool>(graph_.value_count()); }

  // Returns whether it is known that the host has room for what it streams.
  bool consider(const Tiling& tiling, Stream stream) {
    const auto [known, is_new] = tried_.try_emplace({tiling, stream, split_from_});
    bool& has_room = known->second;
    if (!is_new) return has_room;
    const double most = std::min(patience_, most_seconds());
    TiledAttempt attempt = attempt_within({tiling, stream, split_from_}, most);
    if (attempt.slow && most < most_seconds()) put_off_.push_back({tiling, stream, split_from_});
    has_room = !attempt.too_long && attempt.host_needed <= host_limit(request_);
    return has_room;
  }

  // The first `count` of what was put off because of the seconds that it takes, the fastest first: it bounds the others.
  void consider_put_off(std::size_t count) {
    const IdVector<OpId, double> costs = costs_of(request_).seconds;
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t k = 0; k < count; ++k)
      order.emplace_back(seconds_of_tiling(graph_, put_off_[k].tiling, costs, most_seconds()), k);
    std::ranges::sort(order);
    for (const auto& [seconds, k] : order)
      if (seconds <= most_seconds()) attempt_within(put_off_[k], most_seconds());
    put_off_.erase(put_off_.begin(), put_off_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  struct Choice {
    Tiling tiling;
    Stream stream;
    std::int64_t split_from;
    auto operator<=>(const Choice&) const = default;
  };

  double most_seconds() const { return std::min(request_.most_seconds, best_ ? best_->seconds * about_ : request_.most_seconds); }

  // Takes the plan of a choice where it takes no more seconds than `most` and is better than the best.
  TiledAttempt attempt_within(const Choice& of, double most) {
    TiledChoice choice{.tiling = of.tiling, .halo = search_.halo, .most_seconds = most};
    choice.stream = of.stream;
    choice.cut = search_.cut;
    choice.split_from = of.split_from;
    choice.most_needed = best_ || of.stream != first_ ? 0 : lacking_.device_bytes();
    TiledAttempt attempt = tiled_plan(request_, planner_, choice, memory_);
    std::optional<TiledPlan>& found = attempt.plan;
    if (!found && !attempt.slow && of.stream == first_) lacking_.add(request_, attempt);
    if (found && (!best_ || found->seconds * about_ < best_->seconds ||
                  (found->seconds <= best_->seconds * about_ && found->host_bytes < best_->host_bytes))) {
      best_ = std::move(found);
      best_tiling_ = of.tiling;
    }
    return attempt;
  }

  bool consider_ops(IdVector<OpId, bool> tiled, IdVector<ValueId, bool> cuts, Stream stream) {
    const Tiling tiling = tiling_of(request_, std::move(tiled), std::move(cuts), remake_);
    // Where no pass waits for another of its phase, there is nothing to be made again.
    const bool same = remake_ != Remake::none && tiling.stored == stored_by(request_, tiling, Remake::none);
    return (same && !search_.remake) || consider(tiling, stream);
  }

  // The first layers tiled, with what these positions make stored, or what a pool after them does.
  bool consider_layers(std::int64_t end, const std::vector<std::int64_t>& positions, Stream stream) {
    IdVector<ValueId, bool> cuts = no_cuts();
    for (std::int64_t position : positions) {
      if (position < end && !stored_beside(graph_, groups_[position].forward.back()).empty()) ++position;
      if (position < end) cuts[groups_[position - 1].output] = true;
    }
    bool has_room = false;
    for (const IdVector<OpId, std::size_t>& group_of : tileable_) {
      IdVector<OpId, bool> tiled;
      for (const std::size_t group : group_of) tiled.push_back(group < static_cast<std::size_t>(end));
      has_room |= consider_ops(std::move(tiled), cuts, stream);
      if (end == 0) break;
    }
    return has_room;
  }

  // With what is made where maps become smaller stored: from the last, the smallest, as many as the host has room for.
  void consider_narrow(std::int64_t end, Stream stream) {
    for (auto from = ends_.begin(); from != ends_.end(); ++from)
      if (consider_layers(end, {from, ends_.end()}, stream)) break;
  }

  void consider_all(Stream stream) {
    if (search_.layers == 0 && has_tokens()) consider_ops(ops_of_largest(graph_), no_cuts(), stream);
    for (const std::int64_t end : layers_) {
      consider_layers(end, {}, stream);
      if (!search_.checkpoints) continue;
      consider_narrow(end, stream);
      const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(end))));
      for (const std::int64_t segment : {root, std::int64_t{3}, std::int64_t{2}, std::int64_t{1}}) {
        std::vector<std::int64_t> even;
        for (std::int64_t g = segment; g < end; g += segment)
          if (groups_[g - 1].output) even.push_back(g);
        consider_layers(end, even, stream);
      }
    }
  }

  bool consider_whole() {
    if (search_.layers == 0 && search_.whole) consider_layers(0, {}, first_);
    return best_.has_value();
  }

  // To make values again helps where they lack room, or where copies take longer than ops; all layers are tiled then. Where it does
  // not lower what lacks on the device, another tiling will not either.
  void make_again() {
    const auto is_done = [&] { return search_.remake || (best_ && !remaking_may_gain(request_, best_->seconds)); };
    const std::int64_t lacked = lacking_.device_bytes();
    const auto is_hopeless = [&] { return !best_ && lacking_.device_bytes() >= lacked && !host_lacks(); };
    if (!is_done()) make_again_by(Remake::backward, first_);
    const std::size_t least = put_off_.size();
    if (least == 0 && is_hopeless()) return;
    for (const Remake next : {Remake::cheaper, Remake::once, Remake::backward, Remake::all})
      for (const Stream stream : streams_)
        if (!is_done()) make_again_by(next, stream);
    consider_put_off(least);
    if (is_hopeless()) put_off_.clear();
    consider_put_off(put_off_.size());
  }

  void make_again_by(Remake remake, Stream stream) {
    remake_ = remake;
    consider_layers(layers_.back(), {}, stream);
    if (search_.checkpoints) consider_narrow(layers_.back(), stream);
  }

  // Weights leave the device only where nothing else helps: they are read again in every step. The large ones first, then all.
  void split_weights() {
    constexpr std::int64_t kParts = 8;
    const IdVector<OpId, bool> none_tiled(graph_.op_count());
    const Plan untiled = plan_of(graph_, tiling_of(request_, none_tiled, no_cuts(), Remake::none), "");
    std::vector<ValueId> split;
    for (const std::int64_t bytes : {limit_of(request_) / kParts, std::int64_t{1}}) {
      if (best_ || search_.stream == Stream::none || !request_.has_lower_tier()) return;
      std::vector<ValueId> weights = weights_from(request_, untiled, bytes);
      if (weights == split) continue;
      split = std::move(weights);
      remake_ = search_.remake.value_or(Remake::none);
      split_from_ = bytes;
      if (!consider_whole()) consider_all(first_);
      consider_put_off(put_off_.size());
    }
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const std::string_view planner_;
  const TiledSearch& search_;
  PassMemory memory_;
  const std::vector<Group> groups_;
  const std::vector<std::int64_t> ends_;               // groups after which maps are smaller
  std::vector<std::int64_t> layers_;                   // how many are tried in tiles
  std::vector<IdVector<OpId, std::size_t>> tileable_;  // by way to cut, then by op: its group
  const Stream first_;
  std::vector<Stream> streams_{first_};
  // Where the time is about the same, the one that asks for less host memory is better; what was given for it may be used.
  const double about_;

  const double patience_;  // seconds
  Remake remake_;
  std::int64_t split_from_ = TiledChoice::kNoWeights;
  std::map<Choice, bool> tried_;
  std::vector<Choice> put_off_;  // they take longer than `patience_`
  std::optional<TiledPlan> best_;
  Tiling best_tiling_;
  Lacking lacking_;  // streaming what asks for the least of the device
};

}  // namespace

Planned<Plan> fastest_tiled_plan(const PlanRequest& request, std::string_view planner, const TiledSearch& search) {
  return Searcher(request, planner, search).run();
}

}  // namespace outsize
