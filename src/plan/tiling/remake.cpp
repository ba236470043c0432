#include "plan/tiling/remake.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/opdef.h"
#include "plan/reckon/lives.h"

namespace outsize {

namespace {

// Decides what is stored, in the order that values are made. Whatever later passes of its phase read is stored, or in its stead one
// of those that it is made of, back to where they come from several values or from a stored one; or none, and all are made again
// from there. Reckoned with whole ops and whole copies: halos and what a pass makes again anyway are left to the tiles of a plan.
class CheaperStores {
 public:
  CheaperStores(const PlanRequest& request, const Tiling& tiling)
      : request_(request),
        graph_(request.graph),
        tiling_(tiling),
        costs_(costs_of(request)),
        numbers_(pass_numbers(graph_, tiling)),
        stored_(graph_.value_count(), Stored::never),
        seen_ops_(graph_.op_count(), 0),
        seen_values_(graph_.value_count(), 0) {}

  IdVector<ValueId, Stored> decide() {
    const IdVector<ValueId, bool> read = read_in_phase(graph_, tiling_);
    for (std::int64_t v = 0; v < graph_.value_count(); ++v)
      if (read[ValueId(v)]) decide(ValueId(v));
    return std::move(stored_);
  }

 private:
  // A value on the way to the one that is read, and the seconds that it takes from the one before it.
  struct Link {
    ValueId value;
    double seconds = 0;
  };

  double seconds_out(ValueId value) const {
    return static_cast<double>(packed_bytes(request_, value)) / request_.profile.device.link_out;
  }
  double seconds_in(ValueId value) const {
    return static_cast<double>(packed_bytes(request_, value)) / request_.profile.device.link_in;
  }

  void decide(ValueId read) {
    const double most = seconds_out(read) + static_cast<double>(later_passes(read).size()) * seconds_in(read);
    const std::vector<Link> chain = chain_to(read, most);
    // By pass that reads any of the chain: which of them.
    std::map<std::int32_t, std::vector<std::size_t>> needs;
    for (std::size_t k = 0; k < chain.size(); ++k)
      for (const std::int32_t pass : later_passes(chain[k].value)) needs[pass].push_back(k);
    // Up to and with the first `end` of the chain, from the `begin`th on.
    const auto made = [&](std::size_t begin, std::size_t end) {
      double seconds = 0;
      for (std::size_t k = begin; k < end; ++k) seconds += chain[k].seconds;
      return seconds;
    };
    const auto cost = [&](std::size_t stored) {
      double seconds = stored < chain.size() ? seconds_out(chain[stored].value) : 0;
      for (const auto& [pass, members] : needs) {  // ascending
        const auto from = std::lower_bound(members.begin(), members.end(), stored);
        if (from != members.begin()) seconds += made(0, *(from - 1) + 1);
        if (from != members.end()) seconds += seconds_in(chain[stored].value) + made(stored + 1, members.back() + 1);
      }
      return seconds;
    };
    std::size_t best = chain.size();  // none
    double fewest = cost(best);
    for (std::size_t k = chain.size(); k-- > 0;)
      if (const double seconds = cost(k); seconds < fewest) {
        fewest = seconds;
        best = k;
      }
    if (best < chain.size()) stored_[chain[best].value] = Stored::always;
  }

  // The passes after the one that makes a value that read it.
  std::vector<std::int32_t> later_passes(ValueId value) const {
    std::vector<std::int32_t> passes;
    const std::int32_t made = numbers_[graph_.value(value).producer];
    for (OpId reader : graph_.value(value).consumers)
      if (tiling_.tiled[reader] && numbers_[reader] > made) passes.push_back(numbers_[reader]);
    std::sort(passes.begin(), passes.end());
    passes.erase(std::unique(passes.begin(), passes.end()), passes.end());
    return passes;
  }

  // From the first that is not stored, and made of stored values or of several, to `last`; cut short where making it again takes
  // longer than `most`: no more of it will be.
  std::vector<Link> chain_to(ValueId last, double most) {
    std::vector<Link> chain;
    double seconds = 0;
    for (ValueId value = last; value;) {
      const OpId producer = graph_.value(value).producer;
      const bool gradient = graph_.op(producer).phase == Phase::backward;
      std::vector<ValueId> leading, others;
      ++walk_;
      double own = costs_.seconds[producer];
      for (ValueId input : graph_.op(producer).inputs) {
        if (graph_.value(input).persistent() || std::exchange(seen_values_[input], walk_) == walk_) continue;
        if (is_found(input))
          own += seconds_in(input);
        else
          (gradient && graph_.op(graph_.value(input).producer).phase == Phase::forward ? others : leading).push_back(input);
      }
      const ValueId next = leading.size() == 1 && seconds + own <= most ? leading[0] : ValueId{};
      if (!next) others.insert(others.end(), leading.begin(), leading.end());
      own += again_seconds(others, most);
      chain.push_back({value, own});
      seconds += own;
      value = next;
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  // Whether later passes find a value stored.
  bool is_found(ValueId value) const {
    const Value& v = graph_.value(value);
    const OpId producer = v.producer;
    if (!producer || !tiling_.tiled[producer] || tiling_.cuts[value] || stored_[value] == Stored::always) return true;
    if (!graph_.op(producer).def->can_gather({graph_, graph_.op(producer)})) return true;
    return std::any_of(v.consumers.begin(), v.consumers.end(), [&](OpId reader) { return !tiling_.tiled[reader]; });
  }

  // Of all that a pass would run, and load, to make these values again; more than `most` is as bad as any.
  double again_seconds(const std::vector<ValueId>& values, double most) {
    ++walk_;
    double seconds = 0;
    std::vector<OpId> ops;
    const auto add = [&](ValueId value) {
      const OpId op = graph_.value(value).producer;
      if (std::exchange(seen_ops_[op], walk_) == walk_) return;
      ops.push_back(op);
      seconds += costs_.seconds[op];
    };
    for (ValueId value : values) add(value);
    for (std::size_t k = 0; k < ops.size() && seconds <= most; ++k)
      for (ValueId input : graph_.op(ops[k]).inputs) {
        if (graph_.value(input).persistent() || std::exchange(seen_values_[input], walk_) == walk_) continue;
        if (is_found(input))
          seconds += seconds_in(input);
        else
          add(input);
      }
    return seconds;
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const Tiling& tiling_;
  const OpCosts costs_;
  const IdVector<OpId, std::int32_t> numbers_;
  IdVector<ValueId, Stored> stored_;
  IdVector<OpId, std::int64_t> seen_ops_;        // the last walk that met them
  IdVector<ValueId, std::int64_t> seen_values_;  // likewise
  std::int64_t walk_ = 0;
};

}  // namespace

std::optional<Remake> remake_of(const PlannerOptions& options) {
  if (!options.has(kRemake)) return std::nullopt;
  const std::string_view word = options.word(kRemake);
  return word == "none"       ? Remake::none
         : word == "cheaper"  ? Remake::cheaper
         : word == "once"     ? Remake::once
         : word == "backward" ? Remake::backward
                              : Remake::all;
}

bool remaking_may_gain(const PlanRequest& request, double seconds) {
  constexpr double kAbout = 1.05;
  double once = 0;
  for (const double of_op : costs_of(request).seconds) once += of_op;
  return seconds >= once * kAbout;
}

IdVector<ValueId, Stored> stored_by(const PlanRequest& request, const Tiling& tiling, Remake remake) {
  const Graph& graph = request.graph;
  const Stored how = remake == Remake::none       ? Stored::always
                     : remake == Remake::once     ? Stored::each_phase
                     : remake == Remake::backward ? Stored::forward
                                                  : Stored::never;
  IdVector<ValueId, Stored> stored =
      remake == Remake::cheaper ? CheaperStores(request, tiling).decide() : stored_in_phase(graph, tiling, how);
  for (std::int64_t o = 0; o < graph.op_count(); ++o) {
    const Op& op = graph.op(OpId(o));
    if (!tiling.tiled[OpId(o)] || op.phase != Phase::forward) continue;
    const std::vector<OpId>& readers = graph.value(op.outputs[0]).consumers;
    const bool whole = std::any_of(readers.begin(), readers.end(), [&](OpId reader) { return !tiling.tiled[reader]; });
    if (!whole && !tiling.cuts[op.outputs[0]] && stored[op.outputs[0]] != Stored::always) continue;
    for (ValueId output : stored_beside(graph, OpId(o))) stored[output] = Stored::always;
  }
  return stored;
}

std::vector<ValueId> stored_beside(const Graph& graph, OpId id) {
  const OpSite site{graph, graph.op(id)};
  std::vector<ValueId> beside;
  for (int i = 1; i < static_cast<int>(site.op.outputs.size()); ++i)
    if (site.op.def->stored_beside(site, i)) beside.push_back(site.op.outputs[i]);
  return beside;
}

}  // namespace outsize
