#include "plan/tiles/tiles.h"

#include <algorithm>
#include <iterator>

namespace outsize {

PassTiles::PassTiles(TileLines& lines, const Pass& pass) : roles_(lines.roles()), graph_(roles_->graph()), pass_(pass) {
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
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const std::size_t d = static_cast<std::size_t>(dim);
    lines_.push_back(lines.line(dim, d < pass.cuts.size() ? pass.cuts[d] : std::vector<std::int64_t>{}, fast_dim_));
  }
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
        const TileLine& line = this->line(dim);
        std::int64_t reached = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(grid_[dim]); ++i) {
          const Interval changed = line.of(slot(next))[i].compute;
          if (changed.lo < reached || line.of(slot(old))[i].need != changed)
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
    const TileIntervals& at = line(dim).of(slot(value))[static_cast<std::size_t>(tile[dim])];
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
      box.set(own, line(dim).driving(static_cast<std::size_t>(op_of_pass))[static_cast<std::size_t>(tile[dim])]);
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
    const std::span<const TileIntervals> tiles = line(dim).of(slot(value));
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
    for (const TileIntervals& tile : line(dim).of(slot(value))) {
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
    for (const TileIntervals& tile : line(dim).of(slot(value))) {
      if (tile.compute.empty()) continue;
      if (tile.compute.lo != reached) return false;
      reached = tile.compute.hi;
    }
    if (reached != roles_->extent(value, dim)) return false;
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
  const std::span<const TileIntervals> of = line(fast_dim_).of(slot(value));
  const TileIntervals& a = of[static_cast<std::size_t>(tile[fast_dim_])];
  const TileIntervals& b = of[static_cast<std::size_t>(next[fast_dim_])];
  return a.need.empty() || b.need.empty() ? 0 : b.need.lo - a.need.lo;
}

// Whether tile b's boxes are tile a's moved by one step a value, the carries to and from the neighbours included.
bool PassTiles::same_up_to_step(const Dims& a, const Dims& b) const {
  const Dims before_a = neighbour(a, -1), after_a = neighbour(a, 1), before_b = neighbour(b, -1), after_b = neighbour(b, 1);
  if ((before_a.rank() == 0) != (before_b.rank() == 0) || (after_a.rank() == 0) != (after_b.rank() == 0)) return false;
  const TileLine& line = this->line(fast_dim_);
  const auto at = [&](const std::span<const TileIntervals> of, const Dims& tile) {
    return tile.rank() == 0 ? TileIntervals{} : of[static_cast<std::size_t>(tile[fast_dim_])];
  };
  for (ValueId value : values()) {
    const std::span<const TileIntervals> of = line.of(slot(value));
    const std::int64_t delta = step(value, a);
    const TileIntervals x = at(of, a), y = at(of, b);
    if (!moved(x.need, y.need, delta) || !moved(x.compute, y.compute, delta) || !moved(x.carry, y.carry, delta) ||
        !moved(x.owned, y.owned, delta))
      return false;
    // A window that is clipped at both borders stands still while what reads it moves: another call, not the same one shifted.
    const ValueType& type = graph_.value(value).type;
    const int own = dim_of(value, fast_dim_);
    if (delta == 0 && is_map(type.format) && own >= 2 && type.shape[own] > 1 && !x.need.empty()) return false;
    if (!moved(at(of, before_a).carry, at(of, before_b).carry, delta) ||
        !moved(at(of, after_a).carry, at(of, after_b).carry, delta))
      return false;
  }
  // What an op reads of a value may move otherwise than all that the tile has of it, where that is clipped at a border.
  const auto moves = [&](ValueId value, const Box& from, const Box& to) {
    const int own = dim_of(value, fast_dim_);
    return own == kNoDim ? from == to : moved(from[own], to[own], step(value, a));
  };
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const Interval from = line.driving(k)[static_cast<std::size_t>(a[fast_dim_])];
    const Interval to = line.driving(k)[static_cast<std::size_t>(b[fast_dim_])];
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

std::vector<IdSet<ValueId>> values_read_later(const Graph& graph, const Plan& plan) {
  std::vector<IdSet<ValueId>> later(plan.passes.size());
  if (plan.passes.empty()) return later;
  IdVector<ValueId, bool> live(graph.value_count());
  for (ValueId output : graph.outputs()) live[output] = true;
  const auto back_over = [&](OpId id) {
    for (ValueId output : graph.op(id).outputs) live[output] = false;
    for (ValueId input : graph.op(id).inputs) live[input] = true;
  };
  for (std::size_t s = plan.steps.size(); s-- > 0;) {
    const Step& step = plan.steps[s];
    if (const auto* run = std::get_if<RunStep>(&step)) back_over(run->op);
    if (const auto* out = std::get_if<OutStep>(&step)) live[out->value] = true;
    if (const auto* in = std::get_if<InStep>(&step)) live[in->value] = true;
    if (const auto* pass = std::get_if<PassStep>(&step)) {
      const Pass& of = plan.passes[static_cast<std::size_t>(pass->pass)];
      // What reads later what the pass makes for itself alone takes what was there before.
      std::vector<ValueId> waiting;
      std::ranges::copy_if(of.inner, std::back_inserter(waiting), [&](ValueId value) { return live[value]; });
      for (const ValueId value : of.inner) live[value] = false;
      std::vector<ValueId> of_pass;
      for (OpId op : of.ops)
        for (const std::vector<ValueId>* list : {&graph.op(op).inputs, &graph.op(op).outputs})
          std::ranges::copy_if(*list, std::back_inserter(of_pass), [&](ValueId value) { return live[value]; });
      later[static_cast<std::size_t>(pass->pass)] = IdSet<ValueId>(std::move(of_pass));
      for (std::size_t k = of.ops.size(); k-- > 0;) back_over(of.ops[k]);
      for (const ValueId value : waiting) live[value] = true;
    }
  }
  return later;
}

}  // namespace outsize
