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
      walk_(tiles_, emitter.plan_, *this),
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
  std::vector<Dims> all;
  for (std::int64_t t = 0; t < tiles_.tiles(); ++t) all.push_back(tiles_.tile_at(t));
  for (OpId op : pass_.ops) recompute_.push_back(!emitter_.first_run(op));
  for (ValueId value : tiles_.values()) {
    const ValueClass kind = tiles_.value_class(value);
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
    if (const Box slot = carry_slot(tiles_, value, all); !slot.empty())
      carry_[value] = emitter_.new_piece(value, " carry", Tier::device, slot);
  }
  open_takeovers();
  ahead_ = pass_.ahead && tiles_.tiles() > 1;
  if (ahead_) open_windows(all);
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
void PassEmitter::open_windows(std::span<const Dims> all) {
  for (ValueId value : tiles_.values()) {
    const Emitter::Place place = emitter_.place(value);
    if (tiles_.value_class(value) != ValueClass::external || place.device || !place.lower) continue;
    Window window{value, {}};
    const Box largest = window_place(tiles_, value, all);
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

void PassEmitter::copy(const Operand& from, const Operand& to) {
  emitter_.append({.action = Action::copy, .reads = {from}, .writes = {to}});
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

void PassEmitter::tile(const Dims& at, std::size_t place) {
  at_ = at;
  place_ = place;
  leaving_.clear();
  walk_.run(at, order_);
}

bool PassEmitter::on_device(ValueId value) { return emitter_.place(value).device.valid(); }

std::int32_t PassEmitter::loaded(ValueId value) {
  const auto found = std::ranges::find(windows_, value, &Window::value);
  return found == windows_.end() ? -1 : found->places[place_].index;
}

std::int32_t PassEmitter::piece(ValueId value, const Box& box, const char* part) {
  return emitter_.new_piece(value, part, Tier::device, box).index;
}

Operand PassEmitter::operand(const TileOperand& of) {
  using enum TileOperand::In;
  switch (of.in) {
    case piece: return local_operand(PieceId(of.piece), of.value, of.holds, of.box);
    case carry: return local_operand(carry_[of.value], of.value, of.box, of.box);
    case whole: return pass_operand(whole_[of.value] ? whole_[of.value] : emitter_.place(of.value).device, of.value, of.box);
    case lower: break;
  }
  return pass_operand(whole_[of.value] ? whole_[of.value] : emitter_.place(of.value).lower, of.value, of.box);
}

void PassEmitter::load(const TileOperand& from, const TileOperand& to) {
  if (!whole_[from.value] && !emitter_.place(from.value).lower)
    user_error("plan: pass {} reads {}, which is neither on the device nor in a lower tier", pass_.name,
               graph_.value(from.value).name);
  emitter_.load_lower(from.value, operand(from), operand(to));
}

void PassEmitter::store(const TileOperand& from, const TileOperand& to) {
  emitter_.store_lower(from.value, operand(from), operand(to));
}

void PassEmitter::copy(const TileOperand& from, const TileOperand& to) { copy(operand(from), operand(to)); }

void PassEmitter::combine(Combine how, const TileOperand& from, const TileOperand& to) {
  const Operand part = operand(from), sum = operand(to);
  emitter_.append({.action = Action::combine, .combine = how, .reads = {part, sum}, .writes = {sum}});
}

void PassEmitter::zero(const TileOperand& to) { zero(operand(to)); }

void PassEmitter::call(int k, const Call& call, std::span<const TileOperand> reads, std::span<const TileOperand> writes) {
  const Op& op = call.site.op;
  Instruction instruction;
  instruction.op = pass_.ops[static_cast<std::size_t>(k)];
  instruction.recompute = recompute_[static_cast<std::size_t>(k)];
  for (const TileOperand& read : reads) instruction.reads.push_back(operand(read));
  for (const TileOperand& write : writes) instruction.writes.push_back(operand(write));
  if (op.def->has_owned_terms(call.site)) {
    const ValueId driver = op.inputs[static_cast<std::size_t>(op.def->push_driver(call.site))];
    instruction.owned = emitter_.program_.boxes.add({call.owned, step_of(driver)});
  }
  emitter_.append(std::move(instruction));
}

void PassEmitter::take_saved(const TileOperand& to) {
  const auto found = emitter_.saved_.find({pass_index_, to.value.index});
  if (found != emitter_.saved_.end())
    for (const auto& [tile, saved] : found->second)
      if (tile == at_) {
        const Operand from = emitter_.program_.operand(saved.piece, saved.box, saved.box);
        if (pass_.saved_in == Tier::device)
          copy(from, operand(to));
        else
          emitter_.load_lower(to.value, from, operand(to));
        return;
      }
  user_error(
      "plan: pass {} runs its tiles from the last to the first and needs saved rows of {}: add saved_by=PASS naming a forward pass",
      pass_.name, graph_.value(to.value).name);
}

void PassEmitter::save(const TileOperand& from) {
  for (const auto& [later, value] : saves_) {
    if (value != from.value) continue;
    for (const auto& [tile, saved] : emitter_.saved_[{later, value.index}]) {
      TileOperand part = from;
      part.box = intersect(saved.box, from.box);
      if (part.box.empty()) continue;
      const Operand to = emitter_.program_.operand(saved.piece, saved.box, part.box);
      if (emitter_.program_.piece(saved.piece).tier == Tier::device)
        copy(operand(part), to);
      else
        emitter_.store_lower(value, operand(part), to);
    }
  }
}

void PassEmitter::keep_stored(const TileOperand& from) { leaving_.emplace_back(from.piece); }

}  // namespace outsize
