#include "plan/tiles.h"

#include <algorithm>

namespace outsize {

PassTiles::PassTiles(std::shared_ptr<const PassRoles> roles, const Pass& pass)
    : roles_(std::move(roles)), graph_(roles_->graph()), pass_(pass) {
  const Dims& shape = graph_.value(pass.driver).type.shape;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const std::size_t d = static_cast<std::size_t>(dim);
    grid_.push_back(d < pass.cuts.size() ? static_cast<std::int64_t>(pass.cuts[d].size()) + 1 : 1);
  }
  const bool carries = pass.gather_gradients || !pass.share.empty();
  fast_dim_ = shape.rank() - 1;
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (grid_[dim] > 1) fast_dim_ = dim;
  if (carries)  // rows are shared along the first tiled spatial dimension
    for (int dim = shape.rank() - 1; dim >= 2; --dim)
      if (grid_[dim] > 1) fast_dim_ = dim;
  check_reductions();
  for (int dim = 0; dim < shape.rank(); ++dim) lines_.push_back(make_line(dim));
  check_updates();
}

// Every op that adds up what the tiles give must be cut by each cut.
void PassTiles::check_reductions() const {
  const int rank = grid_.rank();
  for (int k = 0; k < static_cast<int>(pass_.ops.size()); ++k) {
    if (mode(k) != OpMode::push) continue;
    const OpSite here = site(k);
    const ValueId reduced = here.op.inputs[static_cast<std::size_t>(here.op.def->push_driver(here))];
    for (int dim = 0; dim < rank; ++dim)
      if (grid_[dim] > 1 && dim_of(reduced, dim) == kNoDim)
        user_error(
            "pass {}: {} has no dimension that a cut of {} along dimension {} cuts, so that op {} would count it in every tile; "
            "leave the op out",
            pass_.name, graph_.value(reduced).name, graph_.value(pass_.driver).name, dim, here.op.name);
  }
}

// Disjoint ranges that cover [0, extent): each ends where its tile's need ends, or in proportion to the driver's tiles where
// nothing of the value is needed; the last at the extent.
std::vector<Interval> PassTiles::owned_ranges(int dim, const std::vector<Intervals>& tiles, std::int64_t extent) const {
  const bool needed = std::any_of(tiles.begin(), tiles.end(), [](const Intervals& tile) { return !tile.need.empty(); });
  const std::int64_t of_driver = graph_.value(pass_.driver).type.shape[dim];
  std::vector<Interval> owned(tiles.size());
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    std::int64_t end = extent;
    if (i + 1 < tiles.size() && needed)
      end = tiles[i].need.empty() ? reached : std::max(reached, tiles[i].need.hi);
    else if (i + 1 < tiles.size())
      end = std::max(reached, pass_.cuts[static_cast<std::size_t>(dim)][i] * extent / of_driver);
    owned[i] = {reached, end};
    reached = end;
  }
  return owned;
}

Box PassTiles::whole_with(ValueId value, int dim, Interval range) const {
  Box box = Box::whole(graph_.value(value).type.shape);
  if (const int own = dim_of(value, dim); own != kNoDim) box.set(own, range);
  return box;
}

std::int64_t PassTiles::extent(ValueId value, int dim) const {
  const int own = dim_of(value, dim);
  return own == kNoDim ? 1 : graph_.value(value).type.shape[own];
}

PassTiles::Line PassTiles::make_line(int dim) const {
  const std::size_t tiles = static_cast<std::size_t>(grid_[dim]);
  Line line;
  line.of.assign(values().size(), std::vector<Intervals>(tiles));
  line.driving.assign(pass_.ops.size(), std::vector<Interval>(tiles));

  const std::int64_t extent = graph_.value(pass_.driver).type.shape[dim];
  std::int64_t start = 0;
  for (std::size_t i = 0; i < tiles; ++i) {
    const std::int64_t end = i + 1 == tiles ? extent : pass_.cuts[static_cast<std::size_t>(dim)][i];
    if (end <= start)
      user_error("pass {}: dimension {} of {} has {} elements and cannot be cut at {}", pass_.name, dim,
                 graph_.value(pass_.driver).name, extent, end);
    Intervals& seed = line.of[slot(pass_.driver)][i];
    seed.owned = seed.compute = seed.need = {start, end};
    start = end;
  }
  push_phase(dim, line);
  demand_phase(dim, line);
  if (dim != fast_dim_)
    for (std::size_t v = 0; v < values().size(); ++v)
      for (const Intervals& tile : line.of[v])
        if (!tile.carry.empty())
          user_error("pass {}: {} would have to be carried along dimension {} as well as {}; cut only one of them", pass_.name,
                     graph_.value(values()[v]).name, dim, fast_dim_);
  return line;
}

bool PassTiles::flows(ValueId value) const {
  const ValueClass kind = value_class(value);
  return value == pass_.driver || kind == ValueClass::pushed || kind == ValueClass::fronted;
}

// The boxes of an op that pushes a range of its driver. An op that answers with more would count it in several tiles.
CallBoxes PassTiles::push_part(const OpSite& here, int dim, Interval range) const {
  const std::size_t j = static_cast<std::size_t>(here.op.def->push_driver(here));
  const ValueId driver = here.op.inputs[j];
  const Box part = whole_with(driver, dim, range);
  CallBoxes boxes = here.op.def->push(here, part);
  if (boxes.in[j] != part)
    user_error("pass {}: op {} takes {} whole along dimension {}, which a cut of {} along dimension {} cuts; cut another",
               pass_.name, here.op.name, graph_.value(driver).name, dim_of(driver, dim), graph_.value(pass_.driver).name, dim);
  return boxes;
}

// Downstream of the driver, in op order: pushed gradients and reductions of the driver, or fronts.
void PassTiles::push_phase(int dim, Line& line) const {
  const std::size_t tiles = static_cast<std::size_t>(grid_[dim]);
  const auto take = [&](ValueId value, std::size_t i, const Box& box) {
    const int own = dim_of(value, dim);
    if (own == kNoDim || box.empty()) return;
    Interval& need = line.of[slot(value)][i].need;
    need = hull(need, box[own]);
  };
  for (int k = 0; k < static_cast<int>(pass_.ops.size()); ++k) {
    const OpSite here = site(k);
    const Op& op = here.op;
    const std::size_t ks = static_cast<std::size_t>(k);
    if (mode(k) == OpMode::gather) continue;
    if (mode(k) == OpMode::front) {
      std::int64_t reached = 0;
      for (std::size_t i = 0; i < tiles; ++i) {
        const Interval range = furthest(dim, op, line, static_cast<std::int64_t>(i), reached);
        reached = range.hi;
        line.driving[ks][i] = range;
        if (range.empty()) {
          for (ValueId output : op.outputs) line.of[slot(output)][i].compute = {reached, reached};
          continue;
        }
        const CallBoxes boxes = op.def->gather(here, whole_with(op.outputs[0], dim, range));
        for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
        for (std::size_t o = 0; o < op.outputs.size(); ++o)
          if (const int own = dim_of(op.outputs[o], dim); own != kNoDim)
            line.of[slot(op.outputs[o])][i].compute = boxes.out[o][own];
      }
      continue;
    }
    const ValueId driver = op.inputs[static_cast<std::size_t>(op.def->push_driver(here))];
    if (!flows(driver)) {
      // What a reduction reads beside its own tiles may be a window of the driver, but not of what is complete over all tiles only.
      const bool gathers = op.def->can_gather(here);
      if (std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return flows(v) && (gathers || v != pass_.driver); }))
        user_error("pass {}: op {} takes its tiles from {}, which the driver {} does not lead to; choose {} as the driver",
                   pass_.name, op.name, graph_.value(driver).name, graph_.value(pass_.driver).name, graph_.value(driver).name);
      continue;  // a reduction of a gathered value: after demand
    }
    for (std::size_t i = 0; i < tiles; ++i) {
      Interval range;
      for (ValueId input : op.inputs) {
        if (!flows(input)) continue;
        const Intervals& tile = line.of[slot(input)][i];
        const Interval flowing = input == pass_.driver ? tile.owned : tile.compute;
        // Parts that are put one after another have rows of their own: with any of them goes all of the op's driver.
        const bool same_rows = extent(input, dim) == extent(driver, dim);
        range = hull(range, same_rows || flowing.empty() ? flowing : Interval{0, extent(driver, dim)});
      }
      if (op.def->has_owned_terms(here)) range = hull(range, line.of[slot(driver)][i].owned);
      line.driving[ks][i] = range;
      if (range.empty()) continue;
      const CallBoxes boxes = push_part(here, dim, range);
      for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
      for (std::size_t o = 0; o < op.outputs.size(); ++o) take(op.outputs[o], i, boxes.out[o]);
    }
    // Where tiles overlap, each brings its part of what flows, but all of a gradient that comes from elsewhere.
    std::int64_t reached = 0;
    for (const Interval& range : line.driving[ks]) {
      if (range.empty()) continue;
      for (ValueId input : op.inputs)
        if (range.lo < reached && !flows(input) && graph_.value(input).role == Role::gradient)
          user_error("pass {}: op {} would add {} in several tiles; put into the pass what makes it, or end the pass before",
                     pass_.name, op.name, graph_.value(input).name);
      reached = range.hi;
    }
    for (ValueId output : op.outputs)
      if (value_class(output) == ValueClass::pushed) settle_gradient(dim, line, output, roles_->owned_wanted(output));
  }
  if (pass_.gather_gradients) settle_fronts(line);
}

// The rows [from, h) of a gradient that can be computed when every flowing input is known up to its front in this tile.
Interval PassTiles::furthest(int dim, const Op& op, const Line& line, std::int64_t tile, std::int64_t from) const {
  const OpSite here{graph_, op};
  const ValueId output = op.outputs[0];
  const auto known = [&](std::int64_t h) {
    if (h == from) return true;
    const CallBoxes boxes = op.def->gather(here, whole_with(output, dim, {from, h}));
    for (std::size_t j = 0; j < op.inputs.size(); ++j) {
      const ValueId input = op.inputs[j];
      if (input != pass_.driver && value_class(input) != ValueClass::fronted) continue;
      const int own = dim_of(input, dim);
      if (own == kNoDim || boxes.in[j].empty()) continue;
      const Intervals& at = line.of[slot(input)][static_cast<std::size_t>(tile)];
      if (boxes.in[j][own].hi > (input == pass_.driver ? at.owned.hi : at.compute.hi)) return false;
    }
    return true;
  };
  std::int64_t low = from, high = extent(output, dim);
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (known(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return {from, low};
}

void PassTiles::settle_gradient(int dim, Line& line, ValueId value, bool owned_terms) const {
  std::vector<Intervals>& tiles = line.of[slot(value)];
  if (owned_terms) {
    const std::vector<Interval> owned = owned_ranges(dim, tiles, extent(value, dim));
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      tiles[i].owned = owned[i];
      tiles[i].need = hull(tiles[i].need, owned[i]);
    }
  }
  if (!shared(value) || dim != fast_dim_) {
    for (Intervals& tile : tiles) tile.compute = tile.need;
    return;
  }
  // Tile i completes what lies past the reach of the tiles below it; the rest flows on to tile i − 1, which runs after it, and
  // through it further down where it reaches past that one too.
  std::int64_t reached = extent(value, dim);
  for (const Intervals& tile : tiles)
    if (!tile.need.empty()) reached = std::min(reached, tile.need.lo);
  for (Intervals& tile : tiles) {
    const std::int64_t end = tile.need.empty() ? reached : std::max(reached, tile.need.hi);
    tile.compute = {reached, end};
    tile.need = hull(tile.need, tile.compute);  // rows that nothing reaches are zero
    reached = end;
  }
  for (std::size_t i = tiles.size(); i-- > 0;) {
    Intervals& tile = tiles[i];
    if (i + 1 < tiles.size()) tile.need = hull(tile.need, tiles[i + 1].carry);
    if (!tile.need.empty() && tile.need.lo < tile.compute.lo) tile.carry = {tile.need.lo, std::min(tile.need.hi, tile.compute.lo)};
  }
}

void PassTiles::settle_fronts(Line& line) const {
  for (ValueId value : values()) {
    if (value_class(value) != ValueClass::fronted) continue;
    std::vector<Intervals>& tiles = line.of[slot(value)];
    std::int64_t lowest = tiles.back().compute.hi;  // what this and later tiles still read
    for (std::size_t i = tiles.size(); i-- > 0;) {
      Intervals& tile = tiles[i];
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
void PassTiles::demand_phase(int dim, Line& line) const {
  Line settled = line;
  demand(dim, settled, false);
  for (ValueId value : values()) {
    const ValueClass kind = value_class(value);
    if (value == pass_.driver || !roles_->owned_wanted(value) || (kind != ValueClass::gathered && kind != ValueClass::external))
      continue;
    const std::vector<Interval> owned = owned_ranges(dim, settled.of[slot(value)], extent(value, dim));
    for (std::size_t i = 0; i < owned.size(); ++i) line.of[slot(value)][i].owned = owned[i];
  }
  demand(dim, line, true);
}

void PassTiles::demand(int dim, Line& line, bool reductions) const {
  const std::size_t tiles = static_cast<std::size_t>(grid_[dim]);
  const auto take = [&](ValueId value, std::size_t i, const Box& box) {
    const int own = dim_of(value, dim);
    if (own == kNoDim || box.empty()) return;
    Interval& need = line.of[slot(value)][i].need;
    need = hull(need, box[own]);
  };
  for (std::size_t k = pass_.ops.size(); k-- > 0;) {
    const OpSite here = site(static_cast<int>(k));
    const Op& op = here.op;
    if (mode(static_cast<int>(k)) != OpMode::gather) {
      const ValueId driver = op.inputs[static_cast<std::size_t>(op.def->push_driver(here))];
      const ValueClass kind = value_class(driver);
      const bool of_the_tile = driver != pass_.driver && (kind == ValueClass::gathered || kind == ValueClass::external);
      if (mode(static_cast<int>(k)) != OpMode::push || !of_the_tile || !reductions) continue;
      for (std::size_t i = 0; i < tiles; ++i) {
        const Interval range = line.of[slot(driver)][i].owned;
        line.driving[k][i] = range;
        if (range.empty()) continue;
        const CallBoxes boxes = push_part(here, dim, range);
        for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
        for (std::size_t o = 0; o < op.outputs.size(); ++o) take(op.outputs[o], i, boxes.out[o]);
      }
      continue;
    }
    join_outputs(dim, line, op);
    for (ValueId output : op.outputs) settle_gathered(dim, line, output);
    for (std::size_t i = 0; i < tiles; ++i) {
      Interval range;
      for (ValueId output : op.outputs)
        if (dim_of(output, dim) != kNoDim || dim_of(op.outputs[0], dim) == kNoDim)
          range = hull(range, line.of[slot(output)][i].compute);
      // Other outputs may be wider: parts of a split, which is made whole along its axis. What has no such dimension is made in
      // every tile, from some of the first output at least (the moments of a norm whose features are cut).
      const Interval of_first{0, extent(op.outputs[0], dim)};
      const bool of_other_rows = !range.empty() && intersect(range, of_first).empty();
      range = of_other_rows || dim_of(op.outputs[0], dim) == kNoDim ? of_first : intersect(range, of_first);
      const auto lacks_it = [&](ValueId output) { return dim_of(output, dim) == kNoDim; };
      if (range.empty() && std::any_of(op.outputs.begin(), op.outputs.end(), lacks_it)) range = {0, 1};
      line.driving[k][i] = range;
      if (range.empty()) continue;
      const CallBoxes boxes = op.def->gather(here, whole_with(op.outputs[0], dim, range));
      for (std::size_t o = 0; o < op.outputs.size(); ++o) {  // an op may make more than it is asked for
        const int own = dim_of(op.outputs[o], dim);
        if (own == kNoDim) continue;
        Intervals& tile = line.of[slot(op.outputs[o])][i];
        if (shared(op.outputs[o]) && dim == fast_dim_ && boxes.out[o][own] != tile.compute)
          user_error("pass {}: op {} cannot make rows of {} by themselves; do not share it", pass_.name, op.name,
                     graph_.value(op.outputs[o]).name);
        OUTSIZE_CHECK(hull(boxes.out[o][own], tile.compute) == boxes.out[o][own]);
        tile.compute = boxes.out[o][own];
        tile.need = hull(tile.need, tile.compute);
      }
      for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
    }
  }
}

// One call makes all outputs of an op, so that a tile has the same rows of those that have the same.
void PassTiles::join_outputs(int dim, Line& line, const Op& op) const {
  if (op.outputs.size() == 1) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(grid_[dim]); ++i) {
    Interval all;
    for (ValueId output : op.outputs) {
      const Intervals& tile = line.of[slot(output)][i];
      if (extent(output, dim) == extent(op.outputs[0], dim)) all = hull(all, hull(tile.need, tile.owned));
    }
    for (ValueId output : op.outputs)
      if (extent(output, dim) == extent(op.outputs[0], dim)) line.of[slot(output)][i].need = all;
  }
}

// All readers of a gathered value have said what they need: what of it is computed in each tile, and what is carried.
void PassTiles::settle_gathered(int dim, Line& line, ValueId value) const {
  std::vector<Intervals>& of = line.of[slot(value)];
  for (Intervals& tile : of) tile.need = hull(tile.need, tile.owned);
  if (!shared(value) || dim != fast_dim_) {
    for (Intervals& tile : of) tile.compute = tile.need;
    return;
  }
  const std::int64_t end_of_all = extent(value, dim);
  std::int64_t reached = end_of_all;
  for (const Intervals& tile : of)
    if (!tile.need.empty()) reached = std::min(reached, tile.need.lo);
  for (Intervals& tile : of) {
    const std::int64_t end = tile.need.empty() ? reached : std::max(reached, tile.need.hi);
    tile.compute = {reached, end};
    reached = end;
  }
  std::int64_t lowest = end_of_all;
  for (std::size_t i = of.size(); i-- > 0;) {
    Intervals& tile = of[i];
    if (!tile.need.empty()) lowest = std::min(lowest, tile.need.lo);
    tile.carry = {std::min(lowest, tile.compute.lo), tile.compute.lo};
    tile.need = hull(tile.carry, tile.compute);
  }
}

// A persistent value changes once: no two tiles replace the same element, and none reads what another replaces.
void PassTiles::check_updates() const {
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const OpSite here = site(static_cast<int>(k));
    for (const InPlacePair& update : here.op.updates) {
      const ValueId old = here.op.inputs[static_cast<std::size_t>(update.input)];
      const ValueId next = here.op.outputs[static_cast<std::size_t>(update.output)];
      if (mode(static_cast<int>(k)) != OpMode::gather)
        user_error("pass {}: op {} changes {} and lies downstream of the driver {}; take {} as the driver", pass_.name,
                   here.op.name, graph_.value(old).name, graph_.value(pass_.driver).name, graph_.value(next).name);
      for (int dim = 0; dim < grid_.rank(); ++dim) {
        if (grid_[dim] == 1) continue;
        if (dim_of(next, dim) == kNoDim)
          user_error("pass {}: a cut of {} along dimension {} does not cut {}, which op {} would change in every tile", pass_.name,
                     graph_.value(pass_.driver).name, dim, graph_.value(old).name, here.op.name);
        const Line& line = lines_[static_cast<std::size_t>(dim)];
        std::int64_t reached = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(grid_[dim]); ++i) {
          const Interval changed = line.of[slot(next)][i].compute;
          if (changed.lo < reached || line.of[slot(old)][i].need != changed)
            user_error("pass {}: op {} changes {} in one tile, and another reads or changes the same of it; leave out what does",
                       pass_.name, here.op.name, graph_.value(old).name);
          reached = changed.hi;
        }
      }
    }
  }
}

Dims PassTiles::neighbour(const Dims& tile, int by) const {
  Dims next = tile;
  next[fast_dim_] += pass_.descending ? -by : by;
  if (next[fast_dim_] < 0 || next[fast_dim_] >= grid_[fast_dim_]) return {};
  return next;
}

Dims PassTiles::tile_at(std::int64_t ordinal) const {
  Dims tile = Dims::filled(grid_.rank(), 0);
  tile[fast_dim_] = ordinal % grid_[fast_dim_];
  if (pass_.descending) tile[fast_dim_] = grid_[fast_dim_] - 1 - tile[fast_dim_];
  ordinal /= grid_[fast_dim_];
  for (int dim = grid_.rank() - 1; dim >= 0; --dim) {
    if (dim == fast_dim_) continue;
    tile[dim] = ordinal % grid_[dim];
    ordinal /= grid_[dim];
  }
  return tile;
}

TileBoxes PassTiles::boxes(ValueId value, const Dims& tile) const {
  const Box whole = Box::whole(graph_.value(value).type.shape);
  TileBoxes boxes{whole, whole, whole, whole};
  for (int dim = 0; dim < grid_.rank(); ++dim) {
    const int own = dim_of(value, dim);
    if (own == kNoDim) continue;
    const Intervals& at = lines_[static_cast<std::size_t>(dim)].of[slot(value)][static_cast<std::size_t>(tile[dim])];
    boxes.present.set(own, at.need);
    boxes.compute.set(own, at.compute);
    boxes.carry.set(own, dim == fast_dim_ ? at.carry : at.need);
    boxes.owned.set(own, at.owned);
  }
  if (dim_of(value, fast_dim_) == kNoDim) boxes.carry = Box::none(whole.rank());
  return boxes;
}

Box PassTiles::driving_box(int op_of_pass, const Dims& tile) const {
  const OpSite here = site(op_of_pass);
  const ValueId value = mode(op_of_pass) == OpMode::push ? here.op.inputs[static_cast<std::size_t>(here.op.def->push_driver(here))]
                                                         : here.op.outputs[0];
  Box box = Box::whole(graph_.value(value).type.shape);
  for (int dim = 0; dim < grid_.rank(); ++dim)
    if (const int own = dim_of(value, dim); own != kNoDim)
      box.set(
          own,
          lines_[static_cast<std::size_t>(dim)].driving[static_cast<std::size_t>(op_of_pass)][static_cast<std::size_t>(tile[dim])]);
  return box;
}

CallBoxes PassTiles::call(int op_of_pass, const Dims& tile) const {
  const OpSite here = site(op_of_pass);
  const Box box = driving_box(op_of_pass, tile);
  return mode(op_of_pass) == OpMode::push ? here.op.def->push(here, box) : here.op.def->gather(here, box);
}

Call PassTiles::call_at(int op_of_pass, const Dims& tile) const {
  const OpSite here = site(op_of_pass);
  Call made{here, call(op_of_pass, tile), {}};
  if (!here.op.def->has_owned_terms(here)) return made;
  const std::size_t driver = static_cast<std::size_t>(here.op.def->push_driver(here));
  // A gathered gradient is complete wherever it is computed; pushed ones add up over the tiles.
  made.owned = mode(op_of_pass) == OpMode::gather ? made.boxes.in[driver] : boxes(here.op.inputs[driver], tile).owned;
  return made;
}

Box PassTiles::flowing(ValueId value, const Dims& tile) const {
  const TileBoxes all = boxes(value, tile);
  return value == pass_.driver ? all.owned : all.compute;
}

bool PassTiles::computes(ValueId value, const Box& box) const {
  for (int dim = 0; dim < grid_.rank(); ++dim) {
    const int own = dim_of(value, dim);
    if (own == kNoDim) continue;
    const std::vector<Intervals>& tiles = lines_[static_cast<std::size_t>(dim)].of[slot(value)];
    std::int64_t reached = box[own].lo;
    for (std::size_t i = 0; i < tiles.size() && reached < box[own].hi;) {
      const bool further = tiles[i].compute.lo <= reached && tiles[i].compute.hi > reached;
      if (further) reached = tiles[i].compute.hi;
      i = further ? 0 : i + 1;
    }
    if (reached < box[own].hi) return false;
  }
  return true;
}

// Whether two tiles compute the same part of a value.
bool PassTiles::computed_twice(ValueId value) const {
  for (int dim = 0; dim < grid_.rank(); ++dim) {
    if (grid_[dim] > 1 && dim_of(value, dim) == kNoDim) return true;
    std::int64_t reached = 0;
    for (const Intervals& tile : lines_[static_cast<std::size_t>(dim)].of[slot(value)]) {
      if (tile.compute.empty()) continue;
      if (tile.compute.lo < reached) return true;
      reached = tile.compute.hi;
    }
  }
  return false;
}

bool PassTiles::adds_up(ValueId value) const {
  const ValueClass kind = value_class(value);
  return kind == ValueClass::reduced || (kind == ValueClass::pushed && computed_twice(value));
}

bool PassTiles::begins_at_zero(ValueId value) const {
  return adds_up(value) || (value_class(value) != ValueClass::gathered && !stored_disjoint(value));
}

Box PassTiles::stored(ValueId value, const Dims& tile) const {
  const TileBoxes all = boxes(value, tile);
  return value_class(value) == ValueClass::gathered ? all.owned : all.compute;
}

// Whether the boxes of a pushed or fronted value are disjoint over tiles and cover it.
bool PassTiles::stored_disjoint(ValueId value) const {
  for (int dim = 0; dim < grid_.rank(); ++dim) {
    if (dim_of(value, dim) == kNoDim) continue;
    std::int64_t reached = 0;
    for (const Intervals& tile : lines_[static_cast<std::size_t>(dim)].of[slot(value)]) {
      if (tile.compute.empty()) continue;
      if (tile.compute.lo != reached) return false;
      reached = tile.compute.hi;
    }
    if (reached != extent(value, dim)) return false;
  }
  return true;
}

namespace {

// Whether b is a moved by `delta`; an empty interval matches an empty one.
bool moved(Interval a, Interval b, std::int64_t delta) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  return a.lo + delta == b.lo && a.hi + delta == b.hi;
}

}  // namespace

std::int64_t PassTiles::step(ValueId value, const Dims& tile) const {
  const Dims next = neighbour(tile, 1);
  if (next.rank() == 0 || dim_of(value, fast_dim_) == kNoDim) return 0;
  const std::vector<Intervals>& of = lines_[static_cast<std::size_t>(fast_dim_)].of[slot(value)];
  const Intervals& a = of[static_cast<std::size_t>(tile[fast_dim_])];
  const Intervals& b = of[static_cast<std::size_t>(next[fast_dim_])];
  return a.need.empty() || b.need.empty() ? 0 : b.need.lo - a.need.lo;
}

// Whether tile b's boxes are tile a's moved by one step a value, the carries to and from the neighbours included.
bool PassTiles::same_up_to_step(const Dims& a, const Dims& b) const {
  const Dims before_a = neighbour(a, -1), after_a = neighbour(a, 1), before_b = neighbour(b, -1), after_b = neighbour(b, 1);
  if ((before_a.rank() == 0) != (before_b.rank() == 0) || (after_a.rank() == 0) != (after_b.rank() == 0)) return false;
  const Line& line = lines_[static_cast<std::size_t>(fast_dim_)];
  const auto at = [&](const std::vector<Intervals>& of, const Dims& tile) {
    return tile.rank() == 0 ? Intervals{} : of[static_cast<std::size_t>(tile[fast_dim_])];
  };
  for (ValueId value : values()) {
    const std::vector<Intervals>& of = line.of[slot(value)];
    const std::int64_t delta = step(value, a);
    const Intervals x = at(of, a), y = at(of, b);
    if (!moved(x.need, y.need, delta) || !moved(x.compute, y.compute, delta) || !moved(x.carry, y.carry, delta) ||
        !moved(x.owned, y.owned, delta))
      return false;
    // A window that is clipped at both borders stands still while what reads it moves: another call, not the same one shifted.
    const ValueType& type = graph_.value(value).type;
    const int own = dim_of(value, fast_dim_);
    if (delta == 0 && type.format == Format::map && own >= 2 && type.shape[own] > 1 && !x.need.empty()) return false;
    if (!moved(at(of, before_a).carry, at(of, before_b).carry, delta) ||
        !moved(at(of, after_a).carry, at(of, after_b).carry, delta))
      return false;
  }
  // What an op reads of a value may move otherwise than all that the tile has of it, where that is clipped at a border.
  const auto moves = [&](ValueId value, const Box& from, const Box& to) {
    const int own = dim_of(value, fast_dim_);
    return own == kNoDim ? from == to : moved(from[own], to[own], step(value, a));
  };
  for (std::size_t k = 0; k < line.driving.size(); ++k) {
    const Interval from = line.driving[k][static_cast<std::size_t>(a[fast_dim_])];
    const Interval to = line.driving[k][static_cast<std::size_t>(b[fast_dim_])];
    if (from.empty() != to.empty()) return false;
    if (from.empty()) continue;
    const Op& op = graph_.op(pass_.ops[k]);
    const CallBoxes x = call(static_cast<int>(k), a), y = call(static_cast<int>(k), b);
    for (std::size_t j = 0; j < op.inputs.size(); ++j)
      if (!moves(op.inputs[j], x.in[j], y.in[j])) return false;
    for (std::size_t o = 0; o < op.outputs.size(); ++o)
      if (!moves(op.outputs[o], x.out[o], y.out[o])) return false;
  }
  return true;
}

bool PassTiles::calls_move_alike(const Dims& a, const Dims& b) const {
  for (int k = 0; k < static_cast<int>(pass_.ops.size()); ++k)
    if (const OpSite of = site(k); !driving_box(k, a).empty() && !of.op.def->moves_alike(of, call(k, a), call(k, b))) return false;
  return true;
}

std::int64_t PassTiles::repeats(const Dims& tile) const {
  std::int64_t count = 1;
  Dims at = tile;
  for (Dims next = neighbour(at, 1); next.rank() > 0; next = neighbour(at, 1)) {
    if (!same_up_to_step(at, next) || (count == 1 && !calls_move_alike(at, next))) break;
    for (ValueId value : values())
      if (count > 1 && step(value, at) != step(value, tile)) return count;
    at = next;
    ++count;
  }
  return count;
}

std::vector<std::vector<bool>> values_read_later(const Graph& graph, const Plan& plan) {
  std::vector<std::vector<bool>> later(plan.passes.size());
  if (plan.passes.empty()) return later;
  std::vector<bool> live(static_cast<std::size_t>(graph.value_count()), false);
  const auto at = [&](ValueId value) { return live.begin() + value.index; };
  for (ValueId output : graph.outputs()) *at(output) = true;
  const auto back_over = [&](OpId id) {
    for (ValueId output : graph.op(id).outputs) *at(output) = false;
    for (ValueId input : graph.op(id).inputs) *at(input) = true;
  };
  for (std::size_t s = plan.steps.size(); s-- > 0;) {
    const Step& step = plan.steps[s];
    if (const auto* run = std::get_if<RunStep>(&step)) back_over(run->op);
    if (const auto* out = std::get_if<OutStep>(&step)) *at(out->value) = true;
    if (const auto* in = std::get_if<InStep>(&step)) *at(in->value) = true;
    if (const auto* pass = std::get_if<PassStep>(&step)) {
      later[static_cast<std::size_t>(pass->pass)] = live;
      const std::vector<OpId>& ops = plan.passes[static_cast<std::size_t>(pass->pass)].ops;
      for (std::size_t k = ops.size(); k-- > 0;) back_over(ops[k]);
    }
  }
  return later;
}

}  // namespace outsize
