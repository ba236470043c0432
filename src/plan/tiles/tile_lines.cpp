#include "plan/tiles/tile_lines.h"

#include <algorithm>

#include "graph/opdef.h"

namespace outsize {

namespace {

class LineMaker {
 public:
  LineMaker(const PassRoles& roles, int dim, std::span<const std::int64_t> cuts, int fast_dim)
      : roles_(roles), graph_(roles.graph()), pass_(roles.pass()), dim_(dim), cuts_(cuts), fast_dim_(fast_dim) {}

  TileLine make() const {
    const std::size_t tiles = cuts_.size() + 1;
    TileLine line(roles_.values().size(), pass_.ops.size(), tiles);
    const std::int64_t extent = graph_.value(pass_.driver).type.shape[dim_];
    std::int64_t start = 0;
    for (std::size_t i = 0; i < tiles; ++i) {
      const std::int64_t end = i + 1 == tiles ? extent : cuts_[i];
      if (end <= start)
        user_error("pass {}: dimension {} of {} has {} elements and cannot be cut at {}", pass_.name, dim_,
                   graph_.value(pass_.driver).name, extent, end);
      TileIntervals& seed = of(line, pass_.driver)[i];
      seed.owned = seed.compute = seed.need = {start, end};
      start = end;
    }
    push_phase(line);
    demand_phase(line);
    if (!carries())
      for (std::size_t v = 0; v < roles_.values().size(); ++v)
        for (const TileIntervals& tile : line.of(v))
          if (!tile.carry.empty())
            user_error("pass {}: {} would have to be carried along dimension {} as well as {}; cut only one of them", pass_.name,
                       graph_.value(roles_.values()[v]).name, dim_, fast_dim_);
    return line;
  }

 private:
  // Disjoint ranges that cover [0, extent): each ends where its tile's need ends, or in proportion to the driver's tiles where
  // nothing of the value is needed; the last at the extent.
  std::vector<Interval> owned_ranges(std::span<const TileIntervals> tiles, std::int64_t extent) const {
    const bool needed = std::any_of(tiles.begin(), tiles.end(), [](const TileIntervals& tile) { return !tile.need.empty(); });
    const std::int64_t of_driver = graph_.value(pass_.driver).type.shape[dim_];
    std::vector<Interval> owned(tiles.size());
    std::int64_t reached = 0;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      std::int64_t end = extent;
      if (i + 1 < tiles.size() && needed)
        end = tiles[i].need.empty() ? reached : std::max(reached, tiles[i].need.hi);
      else if (i + 1 < tiles.size())
        end = std::max(reached, cuts_[i] * extent / of_driver);
      owned[i] = {reached, end};
      reached = end;
    }
    return owned;
  }

  Box whole_with(ValueId value, Interval range) const {
    Box box = Box::whole(graph_.value(value).type.shape);
    if (const int own = dim_of(value); own != PassRoles::kNoDim) box.set(own, range);
    return box;
  }

  // The boxes of an op that pushes a range of its driver. An op that answers with more would count it in several tiles.
  CallBoxes push_part(const OpSite& here, Interval range) const {
    const std::size_t j = static_cast<std::size_t>(here.op.def->push_driver(here));
    const ValueId driver = here.op.inputs[j];
    const Box part = whole_with(driver, range);
    CallBoxes boxes = here.op.def->push(here, part);
    if (boxes.in[j] != part) takes_whole(here.op, driver);
    return boxes;
  }

  [[noreturn]] void takes_whole(const Op& op, ValueId value) const {
    user_error("pass {}: op {} takes {} whole along dimension {}, which a cut of {} along dimension {} cuts; cut another",
               pass_.name, op.name, graph_.value(value).name, dim_of(value), graph_.value(pass_.driver).name, dim_);
  }

  // Downstream of the driver, in op order: pushed gradients and reductions of the driver, or fronts.
  void push_phase(TileLine& line) const {
    const std::size_t tiles = line.tiles();
    for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
      const OpSite here = site(k);
      const Op& op = here.op;
      if (roles_.mode(k) == OpMode::gather) continue;
      if (roles_.mode(k) == OpMode::front) {
        for (ValueId input : op.inputs)
          if (tiles > 1 && roles_.flows(input) && dim_of(input) != PassRoles::kNoDim && dim_of(op.outputs[0]) == PassRoles::kNoDim)
            takes_whole(op, input);
        std::int64_t reached = 0;
        for (std::size_t i = 0; i < tiles; ++i) {
          const Interval range = furthest(op, line, i, reached);
          reached = range.hi;
          line.driving(k)[i] = range;
          if (range.empty()) {
            for (ValueId output : op.outputs) of(line, output)[i].compute = {reached, reached};
            continue;
          }
          const CallBoxes boxes = op.def->gather(here, whole_with(op.outputs[0], range));
          for (std::size_t j = 0; j < op.inputs.size(); ++j) take(line, op.inputs[j], i, boxes.in[j]);
          for (std::size_t o = 0; o < op.outputs.size(); ++o)
            if (const int own = dim_of(op.outputs[o]); own != PassRoles::kNoDim)
              of(line, op.outputs[o])[i].compute = boxes.out[o][own];
        }
        continue;
      }
      const ValueId driver = op.inputs[static_cast<std::size_t>(op.def->push_driver(here))];
      if (!roles_.flows(driver)) {
        // What a reduction reads beside its own tiles may be a window of the driver, but not of what is complete over all tiles
        // only.
        const bool gathers = op.def->can_gather(here);
        if (std::any_of(op.inputs.begin(), op.inputs.end(),
                        [&](ValueId v) { return roles_.flows(v) && (gathers || v != pass_.driver); }))
          user_error("pass {}: op {} takes its tiles from {}, which the driver {} does not lead to; choose {} as the driver",
                     pass_.name, op.name, graph_.value(driver).name, graph_.value(pass_.driver).name, graph_.value(driver).name);
        continue;  // a reduction of a gathered value: after demand
      }
      for (std::size_t i = 0; i < tiles; ++i) {
        Interval range;
        for (ValueId input : op.inputs) {
          if (!roles_.flows(input)) continue;
          const TileIntervals& tile = of(line, input)[i];
          const Interval flowing = input == pass_.driver ? tile.owned : tile.compute;
          // Parts that are put one after another have rows of their own: with any of them goes all of the op's driver.
          const bool same_rows = extent(input) == extent(driver);
          range = hull(range, same_rows || flowing.empty() ? flowing : Interval{0, extent(driver)});
        }
        if (op.def->has_owned_terms(here)) range = hull(range, of(line, driver)[i].owned);
        line.driving(k)[i] = range;
        if (range.empty()) continue;
        const CallBoxes boxes = push_part(here, range);
        for (std::size_t j = 0; j < op.inputs.size(); ++j) take(line, op.inputs[j], i, boxes.in[j]);
        for (std::size_t o = 0; o < op.outputs.size(); ++o) take(line, op.outputs[o], i, boxes.out[o]);
      }
      // Where tiles overlap, each brings its part of what flows, but all of a gradient that comes from elsewhere.
      std::int64_t reached = 0;
      for (const Interval& range : line.driving(k)) {
        if (range.empty()) continue;
        for (ValueId input : op.inputs)
          if (range.lo < reached && !roles_.flows(input) && graph_.value(input).role == Role::gradient)
            user_error("pass {}: op {} would add {} in several tiles; put into the pass what makes it, or end the pass before",
                       pass_.name, op.name, graph_.value(input).name);
        reached = range.hi;
      }
      for (ValueId output : op.outputs)
        if (roles_.value_class(output) == ValueClass::pushed) settle_gradient(line, output, roles_.owned_wanted(output));
    }
    if (pass_.gather_gradients) settle_fronts(line);
  }

  // The rows [from, h) of a gradient that can be computed when every flowing input is known up to its front in this tile.
  Interval furthest(const Op& op, const TileLine& line, std::size_t tile, std::int64_t from) const {
    const OpSite here{graph_, op};
    const ValueId output = op.outputs[0];
    const auto known = [&](std::int64_t h) {
      if (h == from) return true;
      const CallBoxes boxes = op.def->gather(here, whole_with(output, {from, h}));
      for (std::size_t j = 0; j < op.inputs.size(); ++j) {
        const ValueId input = op.inputs[j];
        if (input != pass_.driver && roles_.value_class(input) != ValueClass::fronted) continue;
        const int own = dim_of(input);
        if (own == PassRoles::kNoDim || boxes.in[j].empty()) continue;
        const TileIntervals& at = of(line, input)[tile];
        if (boxes.in[j][own].hi > (input == pass_.driver ? at.owned.hi : at.compute.hi)) return false;
      }
      return true;
    };
    std::int64_t low = from, high = extent(output);
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (known(middle))
        low = middle;
      else
        high = middle - 1;
    }
    return {from, low};
  }

  void settle_gradient(TileLine& line, ValueId value, bool owned_terms) const {
    const std::span<TileIntervals> tiles = of(line, value);
    if (owned_terms) {
      const std::vector<Interval> owned = owned_ranges(tiles, extent(value));
      for (std::size_t i = 0; i < tiles.size(); ++i) {
        tiles[i].owned = owned[i];
        tiles[i].need = hull(tiles[i].need, owned[i]);
      }
    }
    if (!roles_.shared(value) || !carries()) {
      for (TileIntervals& tile : tiles) tile.compute = tile.need;
      return;
    }
    // Tile i completes what lies past the reach of the tiles below it; the rest flows on to tile i − 1, which runs after it, and
    // through it further down where it reaches past that one too.
    std::int64_t reached = extent(value);
    for (const TileIntervals& tile : tiles)
      if (!tile.need.empty()) reached = std::min(reached, tile.need.lo);
    for (TileIntervals& tile : tiles) {
      const std::int64_t end = tile.need.empty() ? reached : std::max(reached, tile.need.hi);
      tile.compute = {reached, end};
      tile.need = hull(tile.need, tile.compute);  // rows that nothing reaches are zero
      reached = end;
    }
    for (std::size_t i = tiles.size(); i-- > 0;) {
      TileIntervals& tile = tiles[i];
      if (i + 1 < tiles.size()) tile.need = hull(tile.need, tiles[i + 1].carry);
      if (!tile.need.empty() && tile.need.lo < tile.compute.lo)
        tile.carry = {tile.need.lo, std::min(tile.need.hi, tile.compute.lo)};
    }
  }

  void settle_fronts(TileLine& line) const {
    for (ValueId value : roles_.values()) {
      if (roles_.value_class(value) != ValueClass::fronted) continue;
      const std::span<TileIntervals> tiles = of(line, value);
      std::int64_t lowest = tiles.back().compute.hi;  // what this and later tiles still read
      for (std::size_t i = tiles.size(); i-- > 0;) {
        TileIntervals& tile = tiles[i];
        if (!tile.need.empty()) lowest = std::min(lowest, tile.need.lo);
        tile.carry = {std::min(lowest, tile.compute.lo), tile.compute.lo};
        tile.owned = tile.compute;
        tile.need = hull(tile.carry, tile.compute);
      }
    }
  }

  // Upstream, in reverse op order: each gathered value's boxes from what its readers need, then the windows of its own inputs. What
  // a tile owns of a value follows what the driver's tile needs of it; only then it is known what a reduction reads of its other
  // inputs: a first round settles the former, a second all boxes.
  void demand_phase(TileLine& line) const {
    const auto is_settled_first = [&](ValueId value) {
      const ValueClass kind = roles_.value_class(value);
      return value != pass_.driver && roles_.owned_wanted(value) && (kind == ValueClass::gathered || kind == ValueClass::external);
    };
    if (std::any_of(roles_.values().begin(), roles_.values().end(), is_settled_first)) {
      TileLine settled = line;
      demand(settled, false);
      for (ValueId value : roles_.values()) {
        if (!is_settled_first(value)) continue;
        const std::vector<Interval> owned = owned_ranges(of(settled, value), extent(value));
        for (std::size_t i = 0; i < owned.size(); ++i) of(line, value)[i].owned = owned[i];
      }
    }
    demand(line, true);
  }

  void demand(TileLine& line, bool reductions) const {
    const std::size_t tiles = line.tiles();
    for (std::size_t k = pass_.ops.size(); k-- > 0;) {
      const OpSite here = site(k);
      const Op& op = here.op;
      if (roles_.mode(k) != OpMode::gather) {
        const ValueId driver = op.inputs[static_cast<std::size_t>(op.def->push_driver(here))];
        const ValueClass kind = roles_.value_class(driver);
        const bool of_the_tile = driver != pass_.driver && (kind == ValueClass::gathered || kind == ValueClass::external);
        if (roles_.mode(k) != OpMode::push || !of_the_tile || !reductions) continue;
        for (std::size_t i = 0; i < tiles; ++i) {
          const Interval range = of(line, driver)[i].owned;
          line.driving(k)[i] = range;
          if (range.empty()) continue;
          const CallBoxes boxes = push_part(here, range);
          for (std::size_t j = 0; j < op.inputs.size(); ++j) take(line, op.inputs[j], i, boxes.in[j]);
          for (std::size_t o = 0; o < op.outputs.size(); ++o) take(line, op.outputs[o], i, boxes.out[o]);
        }
        continue;
      }
      join_outputs(line, op);
      for (ValueId output : op.outputs) settle_gathered(line, output);
      for (std::size_t i = 0; i < tiles; ++i) {
        Interval range;
        for (ValueId output : op.outputs)
          if (dim_of(output) != PassRoles::kNoDim || dim_of(op.outputs[0]) == PassRoles::kNoDim)
            range = hull(range, of(line, output)[i].compute);
        // Other outputs may be wider: parts of a split, which is made whole along its axis. What has no such dimension is made in
        // every tile, from some of the first output at least (the moments of a norm whose features are cut).
        const Interval of_first{0, extent(op.outputs[0])};
        const bool of_other_rows = !range.empty() && intersect(range, of_first).empty();
        range = of_other_rows || dim_of(op.outputs[0]) == PassRoles::kNoDim ? of_first : intersect(range, of_first);
        const auto lacks_it = [&](ValueId output) { return dim_of(output) == PassRoles::kNoDim; };
        if (range.empty() && std::any_of(op.outputs.begin(), op.outputs.end(), lacks_it)) range = {0, 1};
        line.driving(k)[i] = range;
        if (range.empty()) continue;
        const CallBoxes boxes = op.def->gather(here, whole_with(op.outputs[0], range));
        for (std::size_t o = 0; o < op.outputs.size(); ++o) {  // an op may make more than it is asked for
          const int own = dim_of(op.outputs[o]);
          if (own == PassRoles::kNoDim) continue;
          TileIntervals& tile = of(line, op.outputs[o])[i];
          if (roles_.shared(op.outputs[o]) && carries() && boxes.out[o][own] != tile.compute)
            user_error("pass {}: op {} cannot make rows of {} by themselves; do not share it", pass_.name, op.name,
                       graph_.value(op.outputs[o]).name);
          OUTSIZE_CHECK(hull(boxes.out[o][own], tile.compute) == boxes.out[o][own]);
          tile.compute = boxes.out[o][own];
          tile.need = hull(tile.need, tile.compute);
        }
        for (std::size_t j = 0; j < op.inputs.size(); ++j) take(line, op.inputs[j], i, boxes.in[j]);
      }
    }
  }

  // One call makes all outputs of an op, so that a tile has the same rows of those that have the same.
  void join_outputs(TileLine& line, const Op& op) const {
    if (op.outputs.size() == 1) return;
    for (std::size_t i = 0; i < line.tiles(); ++i) {
      Interval all;
      for (ValueId output : op.outputs) {
        const TileIntervals& tile = of(line, output)[i];
        if (extent(output) == extent(op.outputs[0])) all = hull(all, hull(tile.need, tile.owned));
      }
      for (ValueId output : op.outputs)
        if (extent(output) == extent(op.outputs[0])) of(line, output)[i].need = all;
    }
  }

  // All readers of a gathered value have said what they need: what of it is computed in each tile, and what is carried.
  void settle_gathered(TileLine& line, ValueId value) const {
    const std::span<TileIntervals> tiles = of(line, value);
    for (TileIntervals& tile : tiles) tile.need = hull(tile.need, tile.owned);
    if (!roles_.shared(value) || !carries()) {
      for (TileIntervals& tile : tiles) tile.compute = tile.need;
      return;
    }
    const std::int64_t end_of_all = extent(value);
    std::int64_t reached = end_of_all;
    for (const TileIntervals& tile : tiles)
      if (!tile.need.empty()) reached = std::min(reached, tile.need.lo);
    for (TileIntervals& tile : tiles) {
      const std::int64_t end = tile.need.empty() ? reached : std::max(reached, tile.need.hi);
      tile.compute = {reached, end};
      reached = end;
    }
    std::int64_t lowest = end_of_all;
    for (std::size_t i = tiles.size(); i-- > 0;) {
      TileIntervals& tile = tiles[i];
      if (!tile.need.empty()) lowest = std::min(lowest, tile.need.lo);
      tile.carry = {std::min(lowest, tile.compute.lo), tile.compute.lo};
      tile.need = hull(tile.carry, tile.compute);
    }
  }

  OpSite site(std::size_t op_of_pass) const { return {graph_, graph_.op(pass_.ops[op_of_pass])}; }
  int dim_of(ValueId value) const { return roles_.dim_of(value, dim_); }
  std::int64_t extent(ValueId value) const { return roles_.extent(value, dim_); }
  // Whether rows are carried from tile to tile.
  bool carries() const { return dim_ == fast_dim_; }
  std::span<TileIntervals> of(TileLine& line, ValueId value) const { return line.of(roles_.slot(value)); }
  std::span<const TileIntervals> of(const TileLine& line, ValueId value) const { return line.of(roles_.slot(value)); }
  // The tile needs that box too.
  void take(TileLine& line, ValueId value, std::size_t tile, const Box& box) const {
    const int own = dim_of(value);
    if (own == PassRoles::kNoDim || box.empty()) return;
    Interval& need = of(line, value)[tile].need;
    need = hull(need, box[own]);
  }

  const PassRoles& roles_;
  const Graph& graph_;
  const Pass& pass_;
  const int dim_;
  const std::span<const std::int64_t> cuts_;
  const int fast_dim_;
};

}  // namespace

TileLine tile_line(const PassRoles& roles, int dim, std::span<const std::int64_t> cuts, int fast_dim) {
  return LineMaker(roles, dim, cuts, fast_dim).make();
}

std::shared_ptr<const TileLine> TileLines::line(int dim, const std::vector<std::int64_t>& cuts, int fast_dim) {
  std::shared_ptr<const TileLine>& known = known_[{dim, dim == fast_dim, cuts}];
  if (!known) known = std::make_shared<const TileLine>(tile_line(*roles_, dim, cuts, fast_dim));
  return known;
}

}  // namespace outsize
