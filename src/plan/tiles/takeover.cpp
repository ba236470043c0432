#include "plan/tiles/takeover.h"

#include <algorithm>

namespace outsize {

namespace {

// Where the ops of a pass touch its values.
class Uses {
 public:
  explicit Uses(const PassTiles& tiles)
      : tiles_(tiles), made_(tiles.values().size(), kNever), last_read_(tiles.values().size(), kNever) {
    const std::vector<OpId>& ops = tiles.pass().ops;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      for (ValueId input : op(static_cast<int>(k)).inputs) last_read_[tiles.slot(input)] = static_cast<int>(k);
      for (ValueId output : op(static_cast<int>(k)).outputs) made_[tiles.slot(output)] = static_cast<int>(k);
    }
  }

  int made(ValueId value) const { return made_[tiles_.slot(value)]; }
  int last_read(ValueId value) const { return last_read_[tiles_.slot(value)]; }

  // Whether the op that makes `to` may run after all that read `from`: none of those that follow it does, but for reductions that
  // come directly after it and take nothing of what it makes.
  bool read_before_made(ValueId from, ValueId to) const {
    const int maker = made(to);
    for (int k = maker + 1; k <= last_read(from); ++k) {
      const auto reduced = [&](ValueId value) { return tiles_.value_class(value) == ValueClass::reduced; };
      const auto of_maker = [&](ValueId value) { return made(value) == maker; };
      if (!std::ranges::all_of(op(k).outputs, reduced) || std::ranges::any_of(op(k).inputs, of_maker)) return false;
    }
    return true;
  }

 private:
  static constexpr int kNever = -1;
  const Op& op(int k) const { return tiles_.graph().op(tiles_.pass().ops[static_cast<std::size_t>(k)]); }

  const PassTiles& tiles_;
  std::vector<int> made_, last_read_;  // by slot: ops of the pass
};

// Whether tile by tile along one dimension of the driver, in the order they run, nothing is read of `from` where something has been
// stored of `to`.
bool stays_ahead(const PassTiles& tiles, int dim, ValueId from, ValueId to) {
  const int own = tiles.dim_of(from, dim);
  if (own == PassTiles::kNoDim || tiles.dim_of(to, dim) != own) return false;
  const std::int64_t count = tiles.grid()[dim];
  const bool descending = tiles.pass().descending && dim == tiles.fast_dim();
  Interval stored;  // by the tiles before
  for (std::int64_t i = 0; i < count; ++i) {
    Dims tile = Dims::filled(tiles.grid().rank(), 0);
    tile[dim] = descending ? count - 1 - i : i;
    const Interval read = tiles.boxes(from, tile).present[own];
    if (!read.empty() && !intersect(read, stored).empty()) return false;
    stored = hull(stored, tiles.stored(to, tile)[own]);
  }
  return true;
}

}  // namespace

// Tiles follow each other lexicographically, so that of two tiles one comes first along the outermost dimension in which they
// differ, while along the others they may be alike: what the first stores is apart from what the second reads for all such tiles if
// it is so along every dimension that is cut, and, but for tiles that read or store nothing, only then.
std::vector<Takeover> takeovers_of(const PassTiles& tiles, const Plan& plan, const IdSet<ValueId>& read_later) {
  const Graph& graph = tiles.graph();
  const Uses uses(tiles);
  std::vector<ValueId> ending;  // streamed, and read here for the last time
  for (ValueId id : tiles.values()) {
    const Value& value = graph.value(id);
    if (tiles.value_class(id) == ValueClass::external && plan.home_of(id) != Tier::device && value.producer && !value.version_of &&
        !read_later.contains(id))
      ending.push_back(id);
  }
  const auto may_take = [&](ValueId from, ValueId to) {
    if (plan.home_of(from) != plan.home_of(to) || graph.value(from).type != graph.value(to).type) return false;
    if (!uses.read_before_made(from, to)) return false;
    for (int dim = 0; dim < tiles.grid().rank(); ++dim)
      if (tiles.grid()[dim] > 1 && !stays_ahead(tiles, dim, from, to)) return false;
    return true;
  };
  std::vector<Takeover> found;
  for (ValueId to : tiles.values()) {
    const ValueClass kind = tiles.value_class(to);
    const bool stored =
        kind != ValueClass::external && kind != ValueClass::reduced && tiles.leaves(to) && !graph.value(to).version_of;
    if (!stored || plan.home_of(to) == Tier::device || ending.empty() || tiles.begins_at_zero(to)) continue;
    // Its own activation first, so that others are left to other gradients.
    auto from = std::ranges::find(ending, graph.value(to).gradient_of);
    if (from == ending.end() || !may_take(*from, to))
      from = std::ranges::find_if(ending, [&](ValueId id) { return may_take(id, to); });
    if (from == ending.end()) continue;
    found.push_back({*from, to});
    ending.erase(from);
  }
  return found;
}

std::vector<Takeover> takeovers_of(const Graph& graph, const Plan& plan) {
  std::vector<Takeover> all;
  const std::vector<IdSet<ValueId>> later = values_read_later(graph, plan);
  const auto streams = [&](OpId op) {
    return std::ranges::any_of(graph.op(op).outputs, [&](ValueId value) { return plan.home_of(value) != Tier::device; });
  };
  for (std::size_t p = 0; p < plan.passes.size(); ++p) {
    if (std::ranges::none_of(plan.passes[p].ops, streams)) continue;
    const std::vector<Takeover> found = takeovers_of(PassTiles(graph, plan.passes[p], later[p]), plan, later[p]);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

std::vector<int> order_of_calls(const PassTiles& tiles, const std::vector<Takeover>& takeovers) {
  const Uses uses(tiles);
  const std::size_t count = tiles.pass().ops.size();
  std::vector<int> after(count);  // by op: the last that it runs behind, itself where it stays
  for (std::size_t k = 0; k < count; ++k) after[k] = static_cast<int>(k);
  for (const Takeover& takeover : takeovers) {
    int& place = after[static_cast<std::size_t>(uses.made(takeover.to))];
    place = std::max(place, uses.last_read(takeover.from));
  }
  std::vector<int> order(count);
  for (std::size_t k = 0; k < count; ++k) order[k] = static_cast<int>(k);
  std::ranges::stable_sort(
      order, {}, [&](int k) { return std::pair(after[static_cast<std::size_t>(k)], after[static_cast<std::size_t>(k)] != k); });
  return order;
}

}  // namespace outsize
