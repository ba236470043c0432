#include "plan/tiles/tile_walk.h"

#include <algorithm>

#include "base/error.h"

namespace outsize {

TileWalk::TileWalk(const PassTiles& tiles, const Plan& plan, TileActions& actions)
    : tiles_(tiles), graph_(tiles.graph()), plan_(plan), actions_(actions) {}

void TileWalk::run(const Dims& tile, std::span<const int> order) {
  at_ = tile;
  locals_.clear();
  newest_.assign(tiles_.values().size(), -1);
  for (const int k : order) call(k);
}

TileOperand TileWalk::new_piece(ValueId value, const Box& box, const char* part) {
  return {TileOperand::In::piece, actions_.piece(value, box, part), value, box, box};
}

void TileWalk::remember(const TileOperand& piece) {
  std::int32_t& newest = newest_[tiles_.slot(piece.value)];
  locals_.push_back({piece.piece, piece.holds, newest});
  newest = static_cast<std::int32_t>(locals_.size()) - 1;
}

// The newest piece that holds exactly the box.
const TileWalk::Local* TileWalk::find(ValueId value, const Box& box) const {
  for (std::int32_t i = newest_[tiles_.slot(value)]; i >= 0; i = locals_[static_cast<std::size_t>(i)].older)
    if (locals_[static_cast<std::size_t>(i)].box == box) return &locals_[static_cast<std::size_t>(i)];
  return nullptr;
}

// A dense operand that is exactly `box`: the tile's piece, the whole value, or a crop of either.
TileOperand TileWalk::fetch(ValueId value, const Box& box) {
  // Rows of padding alone, or that no window reaches, are made of nothing.
  if (box.empty()) return new_piece(value, box, " nothing");
  const auto of_local = [&](const Local& local, const Box& part) {
    return TileOperand{TileOperand::In::piece, local.piece, value, local.box, part};
  };
  if (const Local* local = find(value, box)) return of_local(*local, box);
  TileOperand source;
  if (tiles_.value_class(value) != ValueClass::external) {
    std::int32_t i = newest_[tiles_.slot(value)];
    while (i >= 0 && !locals_[static_cast<std::size_t>(i)].box.contains(box)) i = locals_[static_cast<std::size_t>(i)].older;
    if (i < 0) internal_error("pass {}: no piece of {} holds {}", tiles_.pass().name, graph_.value(value).name, to_string(box));
    source = of_local(locals_[static_cast<std::size_t>(i)], box);
  } else if (actions_.on_device(value)) {
    source = {TileOperand::In::whole, -1, value, Box::whole(graph_.value(value).type.shape), box};
    if (source.holds == box) return source;
  } else {
    const Box present = tiles_.boxes(value, at_).present;
    if (const Local* known = find(value, present)) {
      source = of_local(*known, box);
    } else if (const std::int32_t window = actions_.loaded(value); window >= 0) {
      source = {TileOperand::In::piece, window, value, present, box};
      remember(source);
    } else {
      source = new_piece(value, present, " window");
      actions_.load({TileOperand::In::lower, -1, value, Box::whole(graph_.value(value).type.shape), present}, source);
      remember(source);
      source.box = box;
    }
    if (present == box) return source;
  }
  const TileOperand crop = new_piece(value, box, " crop");
  actions_.copy(source, crop);
  remember(crop);
  return crop;
}

bool TileWalk::is_gradient(ValueId value) const {
  const OpId producer = graph_.value(value).producer;
  return producer && graph_.op(producer).phase == Phase::backward;
}

// As fetch, for an op that pushes: of a gradient that flows, what this tile pushes, and zeros around it.
TileOperand TileWalk::fetch_flowing(ValueId value, const Box& box) {
  if (!is_gradient(value) || !tiles_.flows(value)) return fetch(value, box);
  const Box part = intersect(tiles_.flowing(value, at_), box);
  if (part == box) return fetch(value, box);
  const TileOperand result = new_piece(value, box, " part");
  actions_.zero(result);
  if (!part.empty()) actions_.copy(fetch(value, part), part_of(result, part));
  return result;
}

void TileWalk::call(int k) {
  const Op& op = graph_.op(tiles_.pass().ops[static_cast<std::size_t>(k)]);
  const OpSite site{graph_, op};
  const OpMode mode = tiles_.mode(k);
  const bool runs = !tiles_.driving_box(k, at_).empty();
  reads_.clear();
  writes_.clear();
  if (runs) {
    const Call made = tiles_.call_at(k, at_);
    const CallBoxes& boxes = made.boxes;
    const std::size_t driver = static_cast<std::size_t>(op.def->push_driver(site));
    // A gradient of what no output reads (rows that a stride leaves over) is zero.
    bool nothing_flows = mode != OpMode::push && op.phase == Phase::backward && boxes.in[driver].empty();
    for (std::size_t j = 0; j < op.inputs.size(); ++j)
      nothing_flows = nothing_flows && (!is_gradient(op.inputs[j]) || boxes.in[j].empty());
    const bool pushes = mode == OpMode::push && tiles_.flows(op.inputs[driver]);
    if (!nothing_flows)
      for (std::size_t j = 0; j < op.inputs.size(); ++j)
        reads_.push_back(pushes ? fetch_flowing(op.inputs[j], boxes.in[j]) : fetch(op.inputs[j], boxes.in[j]));
    for (std::size_t o = 0; o < op.outputs.size(); ++o) writes_.push_back(new_piece(op.outputs[o], boxes.out[o], ""));
    if (nothing_flows)
      for (const TileOperand& write : writes_) actions_.zero(write);
    else
      actions_.call(k, made, reads_, writes_);
  }
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const ValueId output = op.outputs[o];
    if (tiles_.value_class(output) != ValueClass::reduced) {
      settle(output, runs ? &writes_[o] : nullptr);
    } else if (runs) {
      const Box whole = Box::whole(graph_.value(output).type.shape);
      actions_.combine(op.def->combine(site, static_cast<int>(o)), writes_[o],
                       {TileOperand::In::whole, -1, output, whole, writes_[o].box});
    }
  }
}

// Makes the tile's piece of an output from what the call computed (none: the call was skipped).
void TileWalk::settle(ValueId value, const TileOperand* computed) {
  const TileBoxes boxes = tiles_.boxes(value, at_);
  if (boxes.present.empty()) return;
  TileOperand piece;
  if (computed && computed->box == boxes.present) {
    piece = *computed;
  } else {
    piece = new_piece(value, boxes.present, "");
    // Gathered and fronted: carried and computed rows cover the piece. Pushed: what no contribution reaches is zero.
    if (tiles_.value_class(value) == ValueClass::pushed) actions_.zero(piece);
    if (computed) actions_.copy(*computed, part_of(piece, computed->box));
  }
  take_carry(value, boxes, piece);
  give_carry(value, boxes, piece);
  actions_.save(part_of(piece, boxes.compute));
  remember(piece);
  leave(value, piece);
}

void TileWalk::take_carry(ValueId value, const TileBoxes& boxes, const TileOperand& piece) {
  if (!tiles_.shared(value)) return;
  if (tiles_.value_class(value) == ValueClass::pushed) {
    const Dims before = tiles_.neighbour(at_, -1);
    if (before.rank() == 0) return;
    const Box box = tiles_.boxes(value, before).carry;
    if (!box.empty()) actions_.combine(Combine::sum, {TileOperand::In::carry, -1, value, box, box}, part_of(piece, box));
    return;
  }
  if (boxes.carry.empty()) return;
  const TileOperand to = part_of(piece, boxes.carry);
  if (tiles_.pass().descending)
    actions_.take_saved(to);
  else
    actions_.copy({TileOperand::In::carry, -1, value, to.box, to.box}, to);
}

void TileWalk::give_carry(ValueId value, const TileBoxes& boxes, const TileOperand& piece) {
  if (!tiles_.shared(value)) return;
  Box box = Box::none(boxes.present.rank());
  if (tiles_.value_class(value) == ValueClass::pushed)
    box = boxes.carry;
  else if (const Dims after = tiles_.neighbour(at_, 1); !tiles_.pass().descending && after.rank() > 0)
    box = tiles_.boxes(value, after).carry;
  if (!box.empty()) actions_.copy(part_of(piece, box), {TileOperand::In::carry, -1, value, box, box});
}

// A value that a later step reads goes to its whole piece: owned boxes are stored, overlapping contributions are summed.
void TileWalk::leave(ValueId value, const TileOperand& piece) {
  if (!tiles_.leaves(value)) return;
  const Box box = tiles_.stored(value, at_);
  if (box.empty()) return;
  const bool sums = tiles_.adds_up(value);
  const TileOperand from = part_of(piece, box);
  const bool here = home_of(graph_, plan_, value) == Tier::device;
  const TileOperand to{here ? TileOperand::In::whole : TileOperand::In::lower, -1, value,
                       Box::whole(graph_.value(value).type.shape), box};
  if (here) {
    if (sums)
      actions_.combine(Combine::sum, from, to);
    else
      actions_.copy(from, to);
    return;
  }
  if (!sums) {
    actions_.store(from, to);
    actions_.keep_stored(from);
    return;
  }
  const TileOperand sum = new_piece(value, box, " sum");
  actions_.load(to, sum);
  actions_.combine(Combine::sum, from, sum);
  actions_.store(sum, to);
}

namespace {

template <class BoxOf>
Box largest(const PassTiles& tiles, ValueId value, std::span<const Dims> of, const BoxOf& box_of) {
  Box found = Box::none(tiles.graph().value(value).type.shape.rank());
  for (const Dims& tile : of)
    if (const Box box = box_of(tiles.boxes(value, tile)); box.elements() > found.elements()) found = box;
  return found;
}

}  // namespace

Box carry_slot(const PassTiles& tiles, ValueId value, std::span<const Dims> of) {
  // Where tiles run from the last to the first, what is gathered again was saved by an earlier pass.
  const bool saved = tiles.value_class(value) == ValueClass::gathered && tiles.pass().descending;
  if (!tiles.shared(value) || saved) return Box::none(tiles.graph().value(value).type.shape.rank());
  return largest(tiles, value, of, [](const TileBoxes& boxes) { return boxes.carry; });
}

Box window_place(const PassTiles& tiles, ValueId value, std::span<const Dims> of) {
  return largest(tiles, value, of, [](const TileBoxes& boxes) { return boxes.present; });
}

}  // namespace outsize
