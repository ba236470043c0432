#include "program/emit_pass.h"

#include <algorithm>

#include "plan/tiles/takeover.h"

namespace outsize {

PassEmitter::PassEmitter(Emitter& emitter, int pass)
    : emitter_(emitter),
      graph_(emitter.graph_),
      pass_index_(pass),
      pass_(emitter.plan_.passes[static_cast<std::size_t>(pass)]),
      tiles_(graph_, pass_, emitter.read_later_[static_cast<std::size_t>(pass)]),
      carry_(graph_.value_count()),
      whole_(graph_.value_count()) {}

void PassEmitter::emit() {
  check_channels();
  open();
  if (ahead_)
    emit_tiles_ahead();
  else
    emit_tiles();
  close();
}

void PassEmitter::emit_tiles() {
  for (std::int64_t ordinal = 0; ordinal < tiles_.tiles();) {
    const Dims at = tiles_.tile_at(ordinal);
    const std::int64_t repeats = emitter_.options_.loops && rolls_ ? tiles_.repeats(at) : 1;
    const std::int32_t begin = emitter_.next_index();
    per_loop_ = repeats > 1 ? 1 : 0;
    tile(at);
    if (per_loop_ > 0 && emitter_.next_index() > begin) emitter_.program_.loops.push_back({begin, emitter_.next_index(), repeats});
    per_loop_ = 0;
    ordinal += repeats;
  }
}

// Before a tile runs, the windows of the next are loaded into the other place. What it stores keeps its bytes while the next runs.
// An iteration of a loop runs two tiles, so that each place is the same in all of them.
void PassEmitter::emit_tiles_ahead() {
  std::size_t place = 0;  // that has the windows of the next tile to run
  load(tiles_.tile_at(0), place);
  std::vector<PieceId> before;  // what the tile before stores
  const auto run = [&](std::int64_t ordinal) {
    if (ordinal + 1 < tiles_.tiles()) load(tiles_.tile_at(ordinal + 1), 1 - place);
    tile(tiles_.tile_at(ordinal), place);
    place = 1 - place;
    for (PieceId piece : before) emitter_.extend(piece, emitter_.next_index() - 1);
    before = std::move(leaving_);
  };
  for (std::int64_t ordinal = 0; ordinal < tiles_.tiles();) {
    const std::int64_t repeats = emitter_.options_.loops && rolls_ ? tiles_.repeats(tiles_.tile_at(ordinal)) : 1;
    const std::int64_t end = ordinal + repeats;
    // The last tile loaded by an iteration is one of those that repeat.
    if (const std::int64_t pairs = (repeats - 1) / 2; pairs > 1) {
      const std::int32_t begin = emitter_.next_index();
      per_loop_ = 2;
      run(ordinal);
      std::vector<PieceId> stored = before;
      run(ordinal + 1);
      per_loop_ = 0;
      emitter_.program_.loops.push_back({begin, emitter_.next_index(), pairs});
      stored.insert(stored.end(), before.begin(), before.end());
      for (PieceId piece : stored) {  // also while the next iteration runs
        emitter_.extend(piece, begin);
        emitter_.extend(piece, emitter_.next_index() - 1);
      }
      ordinal += 2 * pairs;
    }
    for (; ordinal < end; ++ordinal) run(ordinal);
  }
}

void PassEmitter::load(const Dims& at, std::size_t place) {
  at_ = at;
  for (const Window& window : windows_) {
    const Box present = tiles_.boxes(window.value, at).present;
    if (!present.empty())
      emitter_.load_lower(window.value, pass_operand(emitter_.place(window.value).lower, window.value, present),
                          local_operand(window.places[place], window.value, present, present));
  }
}

// Boxes of a blocked map hold whole blocks of channels.
void PassEmitter::check_channels() const {
  const std::int64_t block = emitter_.options_.storage.channel_block;
  constexpr int kChannels = 1;
  for (ValueId value : tiles_.values()) {
    const ValueType& type = graph_.value(value).type;
    if (block == 1 || type.format != Format::map) continue;
    for (int dim = 0; dim < tiles_.grid().rank(); ++dim) {
      if (tiles_.grid()[dim] == 1 || tiles_.dim_of(value, dim) != kChannels) continue;
      Dims tile = Dims::filled(tiles_.grid().rank(), 0);
      for (; tile[dim] < tiles_.grid()[dim]; ++tile[dim]) {
        const TileBoxes boxes = tiles_.boxes(value, tile);
        for (const Box& box : {boxes.present, boxes.owned})
          if (!box.empty() &&
              (box.lo[kChannels] % block != 0 || (box.hi[kChannels] % block != 0 && box.hi[kChannels] != type.shape[kChannels])))
            user_error("pass {}: it would cut the channels of {} at {}, but they are stored in blocks of {}; cut {} elsewhere",
                       pass_.name, graph_.value(value).name, box.lo[kChannels] % block != 0 ? box.lo[kChannels] : box.hi[kChannels],
                       block, graph_.value(pass_.driver).name);
      }
    }
  }
}

// What lives through the pass: accumulators, whole values it stores, slots for carried and saved rows.
void PassEmitter::open() {
  begin_ = emitter_.next_index();
  for (OpId op : pass_.ops) recompute_.push_back(!emitter_.first_run(op));
  for (ValueId value : tiles_.values()) {
    const ValueClass kind = tiles_.value_class(value);
    const Box whole = Box::whole(graph_.value(value).type.shape);
    if (kind == ValueClass::reduced || (kind != ValueClass::external && tiles_.leaves(value))) {
      const Tier home = home_of(graph_, emitter_.plan_, value);
      if (const ValueId old = graph_.value(value).version_of)
        whole_[value] = home == Tier::device ? emitter_.place(old).device : emitter_.place(old).lower;
      else
        whole_[value] = emitter_.new_whole_piece(value, home);
      if (tiles_.begins_at_zero(value)) {
        if (home == Tier::disk && kind == ValueClass::reduced)
          user_error("plan: {} is reduced over the tiles of pass {} and cannot be streamed to disk; stream it to host",
                     graph_.value(value).name, pass_.name);
        if (home == Tier::disk)
          zero_on_disk(whole_[value], value);
        else
          zero(emitter_.whole_operand(whole_[value], value));
      }
    }
    if (!tiles_.shared(value) || (kind == ValueClass::gathered && pass_.descending)) continue;
    Box largest = Box::none(whole.rank());
    for (std::int64_t t = 0; t < tiles_.tiles(); ++t) {
      const Box box = tiles_.boxes(value, tiles_.tile_at(t)).carry;
      if (box.elements() > largest.elements()) largest = box;
    }
    if (largest.empty()) continue;
    carry_[value] = emitter_.new_piece(value, " carry", Tier::device, largest);
  }
  open_takeovers();
  ahead_ = pass_.ahead && tiles_.tiles() > 1;
  if (ahead_) open_windows();
  if (pass_.descending && !pass_.share.empty()) rolls_ = false;
  // Rows that later passes want saved at their own tile boundaries.
  for (std::size_t p = static_cast<std::size_t>(pass_index_) + 1; p < emitter_.plan_.passes.size(); ++p) {
    const Pass& later = emitter_.plan_.passes[p];
    if (later.saved_by != pass_.name) continue;
    rolls_ = false;
    const PassTiles later_tiles(graph_, later, emitter_.read_later_[p]);
    for (ValueId value : later_tiles.values()) {
      if (later_tiles.value_class(value) != ValueClass::gathered || !later_tiles.shared(value)) continue;
      auto& slots = emitter_.saved_[{static_cast<int>(p), value.index}];
      for (std::int64_t t = 0; t < later_tiles.tiles(); ++t) {
        const Dims at = later_tiles.tile_at(t);
        const Box box = later_tiles.boxes(value, at).carry;
        if (box.empty()) continue;
        const PieceId slot = emitter_.new_piece(value, " saved", later.saved_in, box);
        slots.push_back({at, {slot, box}});
      }
      const bool made = tiles_.value_class(value) == ValueClass::gathered;
      if (std::any_of(slots.begin(), slots.end(),
                      [&](const auto& slot) { return !made || !tiles_.computes(value, slot.second.box); }))
        user_error("plan: pass {} should save rows of {} for pass {} but does not compute {}", pass_.name, graph_.value(value).name,
                   later.name, made ? "all of them" : "it");
      saves_.push_back({static_cast<int>(p), value});
    }
  }
}

// Results that are stored in the bytes of what this pass reads for the last time.
void PassEmitter::open_takeovers() {
  std::vector<Takeover> takeovers;
  if (emitter_.options_.takeovers)
    takeovers = takeovers_of(tiles_, emitter_.plan_, emitter_.read_later_[static_cast<std::size_t>(pass_index_)]);
  // What was brought in as a whole is read from there.
  std::erase_if(takeovers, [&](const Takeover& takeover) { return emitter_.place(takeover.from).device.valid(); });
  for (const Takeover& takeover : takeovers)
    emitter_.program_.piece(whole_[takeover.to]).shares = emitter_.place(takeover.from).lower;
  order_ = order_of_calls(tiles_, takeovers);
}

// Two places for each value that is streamed in, as large as the largest of its windows.
void PassEmitter::open_windows() {
  for (ValueId value : tiles_.values()) {
    const Emitter::Place place = emitter_.place(value);
    if (tiles_.value_class(value) != ValueClass::external || place.device || !place.lower) continue;
    Window window{value, {}};
    Box largest = Box::none(graph_.value(value).type.shape.rank());
    for (std::int64_t t = 0; t < tiles_.tiles(); ++t) {
      const Box box = tiles_.boxes(value, tiles_.tile_at(t)).present;
      if (box.elements() > largest.elements()) largest = box;
    }
    if (largest.empty()) continue;
    for (PieceId& piece : window.places) piece = emitter_.new_piece(value, " window", Tier::device, largest);
    windows_.push_back(window);
  }
}

void PassEmitter::close() {
  const std::int32_t end = std::max(0, emitter_.next_index() - 1);
  for (ValueId value : tiles_.values()) {
    if (carry_[value] && emitter_.program_.piece(carry_[value]).first >= 0) {
      emitter_.extend(carry_[value], begin_);
      emitter_.extend(carry_[value], end);
    }
    if (!whole_[value]) continue;
    emitter_.extend(whole_[value], begin_);
    emitter_.extend(whole_[value], end);
    const Tier home = home_of(graph_, emitter_.plan_, value);
    (home == Tier::device ? emitter_.place(value).device : emitter_.place(value).lower) = whole_[value];
  }
  for (const Window& window : windows_)
    for (PieceId piece : window.places)
      if (emitter_.program_.piece(piece).first >= 0) {
        emitter_.extend(piece, begin_);
        emitter_.extend(piece, end);
      }
}

Dims PassEmitter::step_of(ValueId value) const {
  if (per_loop_ == 0) return {};
  const std::int64_t step = per_loop_ * tiles_.step(value, at_);
  if (step == 0) return {};
  Dims steps = Dims::filled(graph_.value(value).type.shape.rank(), 0);
  steps[tiles_.dim_of(value, tiles_.fast_dim())] = step;
  return steps;
}

Operand PassEmitter::local_operand(PieceId piece, ValueId value, const Box& holds, const Box& box) {
  const Dims step = step_of(value);
  return emitter_.program_.operand(piece, {holds, step}, {box, step});
}

Operand PassEmitter::pass_operand(PieceId piece, ValueId value, const Box& box) {
  return {piece, emitter_.whole_box(value), emitter_.program_.boxes.add({box, step_of(value)})};
}

PieceId PassEmitter::new_local(ValueId value, const Box& box, const char* part) {
  return emitter_.new_piece(value, part, Tier::device, box);
}

void PassEmitter::copy(const Operand& from, const Operand& to) {
  emitter_.append({.action = Action::copy, .reads = {from}, .writes = {to}});
}

void PassEmitter::combine(Combine how, const Operand& from, const Operand& to) {
  emitter_.append({.action = Action::combine, .combine = how, .reads = {from, to}, .writes = {to}});
}

void PassEmitter::zero(const Operand& to) { emitter_.append({.action = Action::zero, .writes = {to}}); }

// Row by row of each sample (of what is no map: sample by sample), out of zeros in the memory that disks are written from.
void PassEmitter::zero_on_disk(PieceId piece, ValueId value) {
  const ValueType& type = graph_.value(value).type;
  const Box whole = Box::whole(type.shape);
  const bool map = type.format == Format::map;
  const int dim = map ? 2 : 0;
  Box row = whole;
  row.set(dim, {0, 1});
  Dims down = Dims::filled(whole.rank(), 0);
  down[dim] = 1;
  for (std::int64_t sample = 0; sample < (map ? whole.extent(0) : 1); ++sample) {
    if (map) row.set(0, {sample, sample + 1});
    const PieceId zeros = emitter_.new_piece(value, " zeros", emitter_.options_.direct_disk ? Tier::device : Tier::host, row);
    const std::int32_t begin = emitter_.next_index();
    const Operand from = emitter_.program_.operand(zeros, {row, down}, {row, down});
    zero(from);
    emitter_.append({.action = Action::disk_out,
                     .lane = Lane::disk_out,
                     .reads = {from},
                     .writes = {emitter_.program_.operand(piece, whole, {row, down})}});
    if (whole.extent(dim) > 1) emitter_.program_.loops.push_back({begin, emitter_.next_index(), whole.extent(dim)});
  }
}

const PassEmitter::Local* PassEmitter::find_local(ValueId value, const Box& box) const {
  for (std::size_t i = locals_.size(); i-- > 0;)
    if (locals_[i].value == value && locals_[i].box == box) return &locals_[i];
  return nullptr;
}

// A dense operand that is exactly `box`: the tile's piece, the whole value, or a crop of either.
Operand PassEmitter::fetch(ValueId value, const Box& box) {
  const Box whole = Box::whole(graph_.value(value).type.shape);
  // Rows of padding alone, or that no window reaches, are made of nothing.
  if (box.empty()) return emitter_.program_.operand(new_local(value, box, " nothing"), box, box);
  if (const Local* local = find_local(value, box)) return local_operand(local->piece, value, box, box);
  Operand source;
  if (tiles_.value_class(value) == ValueClass::external) {
    const Emitter::Place place = emitter_.place(value);
    if (place.device) {
      if (box == whole) return pass_operand(place.device, value, whole);
      source = pass_operand(place.device, value, box);
    } else {
      if (!place.lower)
        user_error("plan: pass {} reads {}, which is neither on the device nor in a lower tier", pass_.name,
                   graph_.value(value).name);
      const Box present = tiles_.boxes(value, at_).present;
      const Local* known = find_local(value, present);
      const PieceId piece = known ? known->piece : new_local(value, present, " window");
      if (!known) {
        emitter_.load_lower(value, pass_operand(place.lower, value, present), local_operand(piece, value, present, present));
        locals_.push_back({value, present, piece});
      }
      if (present == box) return local_operand(piece, value, box, box);
      source = local_operand(piece, value, present, box);
    }
  } else {
    const Local* found = nullptr;
    for (std::size_t i = locals_.size(); i-- > 0 && !found;)
      if (locals_[i].value == value && locals_[i].box.contains(box)) found = &locals_[i];
    if (!found) internal_error("pass {}: no piece of {} holds {}", pass_.name, graph_.value(value).name, to_string(box));
    source = local_operand(found->piece, value, found->box, box);
  }
  const PieceId crop = new_local(value, box, " crop");
  const Operand result = local_operand(crop, value, box, box);
  copy(source, result);
  locals_.push_back({value, box, crop});
  return result;
}

bool PassEmitter::is_gradient(ValueId value) const {
  const OpId producer = graph_.value(value).producer;
  return producer && graph_.op(producer).phase == Phase::backward;
}

// As fetch, for an op that pushes: of a gradient that flows, what this tile pushes, and zeros around it.
Operand PassEmitter::fetch_flowing(ValueId value, const Box& box) {
  if (!is_gradient(value) || !tiles_.flows(value)) return fetch(value, box);
  const Box part = intersect(tiles_.flowing(value, at_), box);
  if (part == box) return fetch(value, box);
  const Operand result = local_operand(new_local(value, box, " part"), value, box, box);
  zero(result);
  if (!part.empty()) copy(fetch(value, part), local_operand(result.piece, value, box, part));
  return result;
}

void PassEmitter::tile(const Dims& at, std::size_t place) {
  at_ = at;
  locals_.clear();
  leaving_.clear();
  for (const Window& window : windows_)
    locals_.push_back({window.value, tiles_.boxes(window.value, at).present, window.places[place]});
  for (const int k : order_) call(k);
}

void PassEmitter::call(int k) {
  const Op& op = graph_.op(pass_.ops[static_cast<std::size_t>(k)]);
  const OpSite site{graph_, op};
  const OpMode mode = tiles_.mode(k);
  const bool runs = !tiles_.driving_box(k, at_).empty();
  std::vector<Local> computed(op.outputs.size());
  if (runs) {
    const Call made = tiles_.call_at(k, at_);
    const CallBoxes& boxes = made.boxes;
    const std::size_t driver = static_cast<std::size_t>(op.def->push_driver(site));
    // A gradient of what no output reads (rows that a stride leaves over) is zero.
    bool nothing_flows = mode != OpMode::push && op.phase == Phase::backward && boxes.in[driver].empty();
    for (std::size_t j = 0; j < op.inputs.size(); ++j)
      nothing_flows = nothing_flows && (!is_gradient(op.inputs[j]) || boxes.in[j].empty());
    const bool pushes = mode == OpMode::push && tiles_.flows(op.inputs[driver]);
    Instruction instruction;
    instruction.op = pass_.ops[static_cast<std::size_t>(k)];
    instruction.recompute = recompute_[static_cast<std::size_t>(k)];
    if (!nothing_flows)
      for (std::size_t j = 0; j < op.inputs.size(); ++j)
        instruction.reads.push_back(pushes ? fetch_flowing(op.inputs[j], boxes.in[j]) : fetch(op.inputs[j], boxes.in[j]));
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const PieceId piece = new_local(op.outputs[o], boxes.out[o], "");
      computed[o] = {op.outputs[o], boxes.out[o], piece};
      instruction.writes.push_back(local_operand(piece, op.outputs[o], boxes.out[o], boxes.out[o]));
    }
    if (op.def->has_owned_terms(site)) instruction.owned = emitter_.program_.boxes.add({made.owned, step_of(op.inputs[driver])});
    if (nothing_flows)
      for (const Operand& write : instruction.writes) zero(write);
    else
      emitter_.append(std::move(instruction));
  }
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const Combine how = op.def->combine(site, static_cast<int>(o));
    if (tiles_.value_class(op.outputs[o]) != ValueClass::reduced)
      settle(op.outputs[o], runs ? &computed[o] : nullptr);
    else if (runs)
      settle_reduced(op.outputs[o], computed[o], how);
  }
}

void PassEmitter::settle_reduced(ValueId value, const Local& computed, Combine how) {
  const PieceId whole = whole_[value];
  combine(how, local_operand(computed.piece, value, computed.box, computed.box), pass_operand(whole, value, computed.box));
}

void PassEmitter::settle(ValueId value, const Local* computed) {
  const TileBoxes boxes = tiles_.boxes(value, at_);
  if (boxes.present.empty()) return;
  Local piece{value, boxes.present, {}};
  if (computed && computed->box == boxes.present) {
    piece = *computed;
  } else {
    piece.piece = new_local(value, boxes.present, "");
    const Operand all = local_operand(piece.piece, value, piece.box, piece.box);
    // Gathered and fronted: carried and computed rows cover the piece. Pushed: what no contribution reaches is zero.
    if (tiles_.value_class(value) == ValueClass::pushed) zero(all);
    if (computed)
      copy(local_operand(computed->piece, value, computed->box, computed->box),
           local_operand(piece.piece, value, piece.box, computed->box));
  }
  take_carry(value, boxes, piece);
  give_carry(value, boxes, piece);
  save_for_later_passes(value, boxes, piece);
  locals_.push_back(piece);
  leave(value, piece);
}

void PassEmitter::take_carry(ValueId value, const TileBoxes& boxes, const Local& piece) {
  if (!tiles_.shared(value)) return;
  const PieceId slot = carry_[value];
  if (tiles_.value_class(value) == ValueClass::pushed) {
    const Dims before = tiles_.neighbour(at_, -1);
    if (before.rank() == 0) return;
    const Box box = tiles_.boxes(value, before).carry;
    if (!box.empty())
      combine(Combine::sum, local_operand(slot, value, box, box), local_operand(piece.piece, value, piece.box, box));
    return;
  }
  if (boxes.carry.empty()) return;
  const Operand to = local_operand(piece.piece, value, piece.box, boxes.carry);
  if (!pass_.descending) {
    copy(local_operand(slot, value, boxes.carry, boxes.carry), to);
    return;
  }
  const auto found = emitter_.saved_.find({pass_index_, value.index});
  if (found != emitter_.saved_.end())
    for (const auto& [tile, saved] : found->second)
      if (tile == at_) {
        const Operand from = emitter_.program_.operand(saved.piece, saved.box, saved.box);
        if (pass_.saved_in == Tier::device)
          copy(from, to);
        else
          emitter_.load_lower(value, from, to);
        return;
      }
  user_error(
      "plan: pass {} runs its tiles from the last to the first and needs saved rows of {}: add saved_by=PASS naming a forward pass",
      pass_.name, graph_.value(value).name);
}

void PassEmitter::give_carry(ValueId value, const TileBoxes& boxes, const Local& piece) {
  if (!tiles_.shared(value)) return;
  const PieceId slot = carry_[value];
  Box box = Box::none(boxes.present.rank());
  if (tiles_.value_class(value) == ValueClass::pushed)
    box = boxes.carry;
  else if (const Dims after = tiles_.neighbour(at_, 1); !pass_.descending && after.rank() > 0)
    box = tiles_.boxes(value, after).carry;
  if (!box.empty()) copy(local_operand(piece.piece, value, piece.box, box), local_operand(slot, value, box, box));
}

void PassEmitter::save_for_later_passes(ValueId value, const TileBoxes& boxes, const Local& piece) {
  for (const auto& [later, saved_value] : saves_) {
    if (saved_value != value) continue;
    for (const auto& [tile, saved] : emitter_.saved_[{later, value.index}]) {
      const Box part = intersect(saved.box, boxes.compute);
      if (part.empty()) continue;
      const Operand from = local_operand(piece.piece, value, piece.box, part);
      const Operand to = emitter_.program_.operand(saved.piece, saved.box, part);
      if (emitter_.program_.piece(saved.piece).tier == Tier::device)
        copy(from, to);
      else
        emitter_.store_lower(value, from, to);
    }
  }
}

// A value that a later step reads goes to its whole piece: owned boxes are stored, overlapping contributions are summed.
void PassEmitter::leave(ValueId value, const Local& piece) {
  const PieceId whole = whole_[value];
  if (!whole) return;
  const bool sums = tiles_.adds_up(value);
  const Box box = tiles_.stored(value, at_);
  if (box.empty()) return;
  const Operand from = local_operand(piece.piece, value, piece.box, box);
  const Operand to = pass_operand(whole, value, box);
  if (home_of(graph_, emitter_.plan_, value) == Tier::device) {
    if (sums)
      combine(Combine::sum, from, to);
    else
      copy(from, to);
    return;
  }
  if (!sums) {
    emitter_.store_lower(value, from, to);
    leaving_.push_back(piece.piece);
    return;
  }
  const PieceId total = new_local(value, box, " sum");
  const Operand sum = local_operand(total, value, box, box);
  emitter_.load_lower(value, to, sum);
  combine(Combine::sum, from, sum);
  emitter_.store_lower(value, sum, to);
}

}  // namespace outsize
