#include "plan/tiles.h"

#include <algorithm>

namespace outsize {

namespace {

bool contains(const std::vector<ValueId>& list, ValueId value) { return std::find(list.begin(), list.end(), value) != list.end(); }

// Disjoint ranges that follow `needs` and cover [0, extent): each ends where its need ends, the last at the extent.
template <class NeedOf>
std::vector<Interval> owned_ranges(std::int64_t tiles, std::int64_t extent, NeedOf&& need_of) {
  std::vector<Interval> owned(static_cast<std::size_t>(tiles));
  std::int64_t reached = 0;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const Interval need = need_of(i);
    const std::int64_t end = i + 1 == tiles ? extent : need.empty() ? reached : std::max(reached, need.hi);
    owned[static_cast<std::size_t>(i)] = {reached, end};
    reached = end;
  }
  return owned;
}

}  // namespace

PassTiles::PassTiles(const Graph& graph, const Pass& pass, const std::vector<bool>& read_later) : graph_(graph), pass_(pass) {
  const Dims& shape = graph.value(pass.driver).type.shape;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const std::size_t d = static_cast<std::size_t>(dim);
    grid_.push_back(d < pass.cuts.size() ? static_cast<std::int64_t>(pass.cuts[d].size()) + 1 : 1);
  }
  const Value& driver = graph.value(pass.driver);
  if (driver.type.format == Format::map && grid_[1] > 1)
    user_error("pass {}: the channels of {} cannot be cut into tiles; cut samples, rows or columns", pass.name, driver.name);
  if (driver.producer && !graph.op(driver.producer).def->can_gather({graph, graph.op(driver.producer)}))
    user_error(
        "pass {}: its driver {} is the result of a reduction and is complete only after all tiles; choose what op {} reduces",
        pass.name, driver.name, graph.op(driver.producer).name);
  const bool carries = pass.gather_gradients || !pass.share.empty();
  fast_dim_ = shape.rank() - 1;
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (grid_[dim] > 1) fast_dim_ = dim;
  if (carries)  // rows are shared along the first tiled spatial dimension
    for (int dim = shape.rank() - 1; dim >= 2; --dim)
      if (grid_[dim] > 1) fast_dim_ = dim;
  classify(read_later);
  for (int dim = 0; dim < shape.rank(); ++dim) lines_.push_back(make_line(dim));
}

void PassTiles::before_barrier(const Op& op, ValueId value) const {
  user_error("pass {}: op {} reads {}, which is complete only after the pass; end the pass before it", pass_.name, op.name,
             graph_.value(value).name);
}

void PassTiles::classify(const std::vector<bool>& read_later) {
  const std::size_t values = static_cast<std::size_t>(graph_.value_count());
  classes_.assign(values, ValueClass::none);
  shared_.assign(values, false);
  leaves_.assign(values, false);
  owned_wanted_.assign(values, false);
  slots_.assign(values, -1);
  modes_.assign(pass_.ops.size(), OpMode::gather);

  std::vector<bool> made(values, false), down(values, false), wanted(values, false);
  const auto at = [](std::vector<bool>& set, ValueId v) { return set[static_cast<std::size_t>(v.index)]; };
  const auto put = [](std::vector<bool>& set, ValueId v) { set[static_cast<std::size_t>(v.index)] = true; };

  // What depends on the driver is pushed (or follows its front); everything it and they need is gathered.
  put(down, pass_.driver);
  std::vector<bool> downstream(pass_.ops.size(), false);
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const Op& op = graph_.op(pass_.ops[k]);
    for (ValueId input : op.inputs) downstream[k] = downstream[k] || at(down, input);
    for (ValueId output : op.outputs) {
      put(made, output);
      if (downstream[k]) put(down, output);
    }
  }
  put(wanted, pass_.driver);
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    if (!downstream[k]) continue;
    for (ValueId input : graph_.op(pass_.ops[k]).inputs)
      if (!at(down, input)) put(wanted, input);
  }
  for (std::size_t k = pass_.ops.size(); k-- > 0;) {
    const Op& op = graph_.op(pass_.ops[k]);
    const OpSite here{graph_, op};
    const bool reduces = !op.def->can_gather(here) || op.def->combine(here, 0) != Combine::none;
    if (downstream[k]) {
      for (ValueId input : op.inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer && at(made, input) && !graph_.op(producer).def->can_gather({graph_, graph_.op(producer)}))
          before_barrier(op, input);
      }
      if (op.phase == Phase::forward && !reduces)
        user_error(
            "pass {}: op {} lies downstream of the driver {} and is neither a reduction nor a gradient; choose a driver further "
            "down",
            pass_.name, op.name, graph_.value(pass_.driver).name);
      modes_[k] = pass_.gather_gradients && op.phase == Phase::backward && op.def->can_gather(here) ? OpMode::front : OpMode::push;
      continue;
    }
    const bool demanded = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return at(wanted, v); });
    if (demanded) {
      for (ValueId input : op.inputs) put(wanted, input);
      continue;
    }
    if (!reduces)
      user_error("pass {}: nothing ties op {} to the tiles of the driver {}; leave it out or choose another driver", pass_.name,
                 op.name, graph_.value(pass_.driver).name);
    modes_[k] = OpMode::push;
  }

  std::vector<bool> seen(values, false);
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const Op& op = graph_.op(pass_.ops[k]);
    const OpSite here{graph_, op};
    for (ValueId input : op.inputs) {
      ValueClass& kind = classes_[static_cast<std::size_t>(input.index)];
      if (kind == ValueClass::reduced) before_barrier(op, input);
      if (!at(seen, input)) kind = ValueClass::external;
      put(seen, input);
    }
    for (ValueId output : op.outputs) {
      if (at(seen, output))
        user_error("pass {}: op {} makes {} after the pass has read it", pass_.name, op.name, graph_.value(output).name);
      put(seen, output);
      const bool complete_later = !op.def->can_gather(here) || op.phase == Phase::forward;
      classes_[static_cast<std::size_t>(output.index)] = modes_[k] == OpMode::gather  ? ValueClass::gathered
                                                         : modes_[k] == OpMode::front ? ValueClass::fronted
                                                         : complete_later             ? ValueClass::reduced
                                                                                      : ValueClass::pushed;
      leaves_[static_cast<std::size_t>(output.index)] = read_later[static_cast<std::size_t>(output.index)];
    }
  }
  if (!at(seen, pass_.driver))
    user_error("pass {}: its driver {} is neither made nor read by its ops", pass_.name, graph_.value(pass_.driver).name);

  for (std::size_t v = 0; v < values; ++v) {
    if (classes_[v] == ValueClass::none) continue;
    const ValueId id(static_cast<std::int64_t>(v));
    slots_[v] = static_cast<int>(values_.size());
    values_.push_back(id);
    const Value& value = graph_.value(id);
    if (classes_[v] == ValueClass::gathered) shared_[v] = contains(pass_.share, id);
    if (classes_[v] == ValueClass::pushed)
      shared_[v] = pass_.descending && !value.partial && value.gradient_of && contains(pass_.share, value.gradient_of);
    if (classes_[v] == ValueClass::fronted) shared_[v] = true;
    if (classes_[v] == ValueClass::gathered) owned_wanted_[v] = leaves_[v];
  }
  put(owned_wanted_, pass_.driver);
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    if (modes_[k] == OpMode::gather) continue;
    const OpSite here = site(static_cast<int>(k));
    const ValueId driver = here.op.inputs[static_cast<std::size_t>(here.op.def->push_driver(here))];
    if (here.op.def->has_owned_terms(here) || !downstream[k]) put(owned_wanted_, driver);
  }
}

Box PassTiles::whole_with(ValueId value, int dim, Interval range) const {
  Box box = Box::whole(graph_.value(value).type.shape);
  if (dim < box.rank()) box.set(dim, range);
  return box;
}

PassTiles::Line PassTiles::make_line(int dim) const {
  const std::size_t tiles = static_cast<std::size_t>(grid_[dim]);
  Line line;
  line.of.assign(values_.size(), std::vector<Intervals>(tiles));
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
    for (std::size_t v = 0; v < values_.size(); ++v)
      for (const Intervals& tile : line.of[v])
        if (!tile.carry.empty())
          user_error("pass {}: {} would have to be carried along dimension {} as well as {}; cut only one of them", pass_.name,
                     graph_.value(values_[v]).name, dim, fast_dim_);
  return line;
}

// Downstream of the driver, in op order: pushed gradients and reductions of the driver, or fronts.
void PassTiles::push_phase(int dim, Line& line) const {
  const std::size_t tiles = static_cast<std::size_t>(grid_[dim]);
  const auto take = [&](ValueId value, std::size_t i, const Box& box) {
    if (dim >= box.rank() || box.empty()) return;
    Interval& need = line.of[slot(value)][i].need;
    need = hull(need, box[dim]);
  };
  const auto flows = [&](ValueId value) {
    const ValueClass kind = value_class(value);
    return value == pass_.driver || kind == ValueClass::pushed || kind == ValueClass::fronted;
  };
  for (int k = 0; k < static_cast<int>(pass_.ops.size()); ++k) {
    const OpSite here = site(k);
    const Op& op = here.op;
    const std::size_t ks = static_cast<std::size_t>(k);
    if (modes_[ks] == OpMode::gather) continue;
    if (modes_[ks] == OpMode::front) {
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
          if (dim < boxes.out[o].rank()) line.of[slot(op.outputs[o])][i].compute = boxes.out[o][dim];
      }
      continue;
    }
    const int driver_index = op.def->push_driver(here);
    const ValueId driver = op.inputs[static_cast<std::size_t>(driver_index)];
    if (!flows(driver)) {
      if (std::any_of(op.inputs.begin(), op.inputs.end(), flows))
        user_error("pass {}: op {} takes its tiles from {}, which the driver {} does not lead to; choose {} as the driver",
                   pass_.name, op.name, graph_.value(driver).name, graph_.value(pass_.driver).name, graph_.value(driver).name);
      continue;  // a reduction of a gathered value: after demand
    }
    for (std::size_t i = 0; i < tiles; ++i) {
      Interval range;
      for (ValueId input : op.inputs) {
        if (!flows(input)) continue;
        const Intervals& tile = line.of[slot(input)][i];
        range = hull(range, input == pass_.driver ? tile.owned : graph_.value(input).partial ? tile.need : tile.compute);
      }
      if (op.def->has_owned_terms(here)) range = hull(range, line.of[slot(driver)][i].owned);
      line.driving[ks][i] = range;
      if (range.empty()) continue;
      const CallBoxes boxes = op.def->push(here, whole_with(driver, dim, range));
      for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
      for (std::size_t o = 0; o < op.outputs.size(); ++o) take(op.outputs[o], i, boxes.out[o]);
    }
    for (ValueId output : op.outputs)
      if (value_class(output) == ValueClass::pushed)
        settle_gradient(dim, line, output, owned_wanted_[static_cast<std::size_t>(output.index)]);
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
      if (dim >= boxes.in[j].rank() || boxes.in[j].empty()) continue;
      const Intervals& at = line.of[slot(input)][static_cast<std::size_t>(tile)];
      if (boxes.in[j][dim].hi > (input == pass_.driver ? at.owned.hi : at.compute.hi)) return false;
    }
    return true;
  };
  const Dims& shape = graph_.value(output).type.shape;
  std::int64_t low = from, high = dim < shape.rank() ? shape[dim] : 1;
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
  const std::int64_t extent = graph_.value(value).type.shape[dim];
  const std::int64_t count = static_cast<std::int64_t>(tiles.size());
  if (owned_terms) {
    const std::vector<Interval> owned =
        owned_ranges(count, extent, [&](std::int64_t i) { return tiles[static_cast<std::size_t>(i)].need; });
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      tiles[i].owned = owned[i];
      tiles[i].need = hull(tiles[i].need, owned[i]);
    }
  }
  if (!shared(value) || dim != fast_dim_) {
    for (Intervals& tile : tiles) tile.compute = tile.need;
    return;
  }
  // Tile i completes what lies past the reach of the tiles below it; the rest flows on to tile i − 1, which runs after it.
  std::int64_t reached = tiles[0].need.lo;
  for (Intervals& tile : tiles) {
    const std::int64_t end = tile.need.empty() ? reached : std::max(reached, tile.need.hi);
    tile.compute = {reached, end};
    if (!tile.need.empty() && tile.need.lo < reached) tile.carry = {tile.need.lo, reached};
    reached = end;
  }
}

void PassTiles::settle_fronts(Line& line) const {
  for (ValueId value : values_) {
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

// Upstream, in reverse op order: each gathered value's boxes from what its readers need, then the windows of its own inputs.
void PassTiles::demand_phase(int dim, Line& line) const {
  const std::size_t tiles = static_cast<std::size_t>(grid_[dim]);
  const auto take = [&](ValueId value, std::size_t i, const Box& box) {
    if (dim >= box.rank() || box.empty()) return;
    Interval& need = line.of[slot(value)][i].need;
    need = hull(need, box[dim]);
  };
  for (int k = static_cast<int>(pass_.ops.size()) - 1; k >= 0; --k) {
    const std::size_t ks = static_cast<std::size_t>(k);
    if (modes_[ks] != OpMode::gather) continue;
    const OpSite here = site(k);
    const Op& op = here.op;
    for (ValueId output : op.outputs) {
      std::vector<Intervals>& of = line.of[slot(output)];
      const Dims& shape = graph_.value(output).type.shape;
      const std::int64_t extent = dim < shape.rank() ? shape[dim] : 1;
      const bool want_owned = owned_wanted_[static_cast<std::size_t>(output.index)];
      if (want_owned && output != pass_.driver) {
        const std::vector<Interval> owned = owned_ranges(static_cast<std::int64_t>(tiles), extent,
                                                         [&](std::int64_t i) { return of[static_cast<std::size_t>(i)].need; });
        for (std::size_t i = 0; i < tiles; ++i) {
          of[i].owned = owned[i];
          of[i].need = hull(of[i].need, owned[i]);
        }
      }
      if (!shared(output) || dim != fast_dim_) {
        for (Intervals& tile : of) tile.compute = tile.need;
        continue;
      }
      std::int64_t reached = extent;
      for (const Intervals& tile : of)
        if (!tile.need.empty()) reached = std::min(reached, tile.need.lo);
      for (Intervals& tile : of) {
        const std::int64_t end = tile.need.empty() ? reached : std::max(reached, tile.need.hi);
        tile.compute = {reached, end};
        reached = end;
      }
      std::int64_t lowest = extent;
      for (std::size_t i = tiles; i-- > 0;) {
        Intervals& tile = of[i];
        if (!tile.need.empty()) lowest = std::min(lowest, tile.need.lo);
        tile.carry = {std::min(lowest, tile.compute.lo), tile.compute.lo};
        tile.need = hull(tile.carry, tile.compute);
      }
    }
    for (std::size_t i = 0; i < tiles; ++i) {
      Interval range;
      for (ValueId output : op.outputs)
        if (dim < graph_.value(output).type.shape.rank()) range = hull(range, line.of[slot(output)][i].compute);
      if (op.outputs.size() > 1)
        for (ValueId output : op.outputs) {
          Intervals& tile = line.of[slot(output)][i];
          tile.compute = range;
          tile.need = hull(tile.need, range);
        }
      line.driving[ks][i] = range;
      if (range.empty()) continue;
      const CallBoxes boxes = op.def->gather(here, whole_with(op.outputs[0], dim, range));
      for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
    }
  }
  // Reductions of gathered or external values, over owned boxes.
  for (int k = 0; k < static_cast<int>(pass_.ops.size()); ++k) {
    const std::size_t ks = static_cast<std::size_t>(k);
    const OpSite here = site(k);
    const Op& op = here.op;
    if (modes_[ks] != OpMode::push) continue;
    const ValueId driver = op.inputs[static_cast<std::size_t>(op.def->push_driver(here))];
    const ValueClass kind = value_class(driver);
    if (driver == pass_.driver || (kind != ValueClass::gathered && kind != ValueClass::external)) continue;
    for (std::size_t i = 0; i < tiles; ++i) {
      const Interval range = line.of[slot(driver)][i].owned;
      line.driving[ks][i] = range;
      if (range.empty()) continue;
      const CallBoxes boxes = op.def->push(here, whole_with(driver, dim, range));
      for (std::size_t j = 0; j < op.inputs.size(); ++j) take(op.inputs[j], i, boxes.in[j]);
      for (std::size_t o = 0; o < op.outputs.size(); ++o) take(op.outputs[o], i, boxes.out[o]);
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
  const Dims& shape = graph_.value(value).type.shape;
  const Box whole = Box::whole(shape);
  TileBoxes boxes{whole, whole, whole, whole};
  for (int dim = 0; dim < std::min(shape.rank(), grid_.rank()); ++dim) {
    const Intervals& at = lines_[static_cast<std::size_t>(dim)].of[slot(value)][static_cast<std::size_t>(tile[dim])];
    boxes.present.set(dim, at.need);
    boxes.compute.set(dim, at.compute);
    boxes.carry.set(dim, dim == fast_dim_ ? at.carry : at.need);
    boxes.owned.set(dim, at.owned);
  }
  return boxes;
}

Box PassTiles::driving_box(int op_of_pass, const Dims& tile) const {
  const OpSite here = site(op_of_pass);
  const ValueId value = mode(op_of_pass) == OpMode::push ? here.op.inputs[static_cast<std::size_t>(here.op.def->push_driver(here))]
                                                         : here.op.outputs[0];
  Box box = Box::whole(graph_.value(value).type.shape);
  for (int dim = 0; dim < std::min(box.rank(), grid_.rank()); ++dim)
    box.set(
        dim,
        lines_[static_cast<std::size_t>(dim)].driving[static_cast<std::size_t>(op_of_pass)][static_cast<std::size_t>(tile[dim])]);
  return box;
}

CallBoxes PassTiles::call(int op_of_pass, const Dims& tile) const {
  const OpSite here = site(op_of_pass);
  const Box box = driving_box(op_of_pass, tile);
  return mode(op_of_pass) == OpMode::push ? here.op.def->push(here, box) : here.op.def->gather(here, box);
}

bool PassTiles::stored_disjoint(ValueId value) const {
  const Dims& shape = graph_.value(value).type.shape;
  for (int dim = 0; dim < std::min(shape.rank(), grid_.rank()); ++dim) {
    std::int64_t reached = 0;
    for (const Intervals& tile : lines_[static_cast<std::size_t>(dim)].of[slot(value)]) {
      if (tile.compute.empty()) continue;
      if (tile.compute.lo != reached) return false;
      reached = tile.compute.hi;
    }
    if (reached != shape[dim]) return false;
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
  if (next.rank() == 0 || fast_dim_ >= graph_.value(value).type.shape.rank()) return 0;
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
  for (ValueId value : values_) {
    const std::vector<Intervals>& of = line.of[slot(value)];
    const std::int64_t delta = step(value, a);
    const Intervals x = at(of, a), y = at(of, b);
    if (!moved(x.need, y.need, delta) || !moved(x.compute, y.compute, delta) || !moved(x.carry, y.carry, delta) ||
        !moved(x.owned, y.owned, delta))
      return false;
    // A window that is clipped at both borders stands still while what reads it moves: another call, not the same one shifted.
    const ValueType& type = graph_.value(value).type;
    if (delta == 0 && type.format == Format::map && fast_dim_ >= 2 && type.shape[fast_dim_] > 1 && !x.need.empty()) return false;
    if (!moved(at(of, before_a).carry, at(of, before_b).carry, delta) ||
        !moved(at(of, after_a).carry, at(of, after_b).carry, delta))
      return false;
  }
  for (const std::vector<Interval>& driving : line.driving)
    if (driving[static_cast<std::size_t>(a[fast_dim_])].empty() != driving[static_cast<std::size_t>(b[fast_dim_])].empty())
      return false;
  return true;
}

std::int64_t PassTiles::repeats(const Dims& tile) const {
  std::int64_t count = 1;
  Dims at = tile;
  for (Dims next = neighbour(at, 1); next.rank() > 0; next = neighbour(at, 1)) {
    if (!same_up_to_step(at, next)) break;
    for (ValueId value : values_)
      if (count > 1 && step(value, at) != step(value, tile)) return count;
    at = next;
    ++count;
  }
  return count;
}

}  // namespace outsize
