#include "program/check_contents.h"

#include <limits>

namespace outsize {
namespace {

bool meets(const Box& a, const Box& b) {
  for (int i = 0; i < a.rank(); ++i)
    if (a.lo[i] >= b.hi[i] || b.lo[i] >= a.hi[i]) return false;
  return true;
}

// Calls `rest` with disjoint boxes that cover what `cut` leaves of `box`.
template <class Rest>
void without(Box box, const Box& cut, Rest rest) {
  for (int i = 0; i < box.rank(); ++i) {
    Box side = box;
    if (box.lo[i] < cut.lo[i]) {
      side.set(i, {box.lo[i], cut.lo[i]});
      rest(side);
    }
    if (cut.hi[i] < box.hi[i]) {
      side.set(i, {cut.hi[i], box.hi[i]});
      rest(side);
    }
    box.set(i, intersect(box[i], cut[i]));
  }
}

constexpr const char* kRead = "reads";
constexpr const char* kWrite = "writes";

}  // namespace

void Parts::clear() {
  dim_ = -1;
  short_.clear();
  long_.clear();
}

void Parts::add(const Part& part, const Box& whole) {
  if (dim_ < 0) {
    for (int i = 0; i < whole.rank() && dim_ < 0; ++i)
      if (part.box.extent(i) < whole.extent(i)) {
        dim_ = i;
        reach_ = 2 * part.box.extent(i);
      }
  }
  if (dim_ >= 0 && part.box.extent(dim_) <= reach_)
    short_.emplace(part.box.lo[dim_], part);
  else
    long_.push_back(part);
  if (dim_ >= 0 && long_.size() >= kFew) reach_further();
}

// The first part was shorter than most (a border tile, say): half of the long ones become short.
void Parts::reach_further() {
  const auto middle = long_.begin() + kFew / 2;
  std::nth_element(long_.begin(), middle, long_.end(),
                   [&](const Part& a, const Part& b) { return a.box.extent(dim_) < b.box.extent(dim_); });
  reach_ = middle->box.extent(dim_);
  std::erase_if(long_, [&](const Part& part) {
    if (part.box.extent(dim_) > reach_) return false;
    short_.emplace(part.box.lo[dim_], part);
    return true;
  });
}

template <class Visit>
void Parts::each(const Box& box, Visit visit) const {
  for (const Part& part : long_)
    if (meets(part.box, box)) visit(part);
  if (short_.empty()) return;
  for (auto it = short_.upper_bound(box.lo[dim_] - reach_); it != short_.end() && it->first < box.hi[dim_]; ++it)
    if (meets(it->second.box, box)) visit(it->second);
}

template <class Select>
void Parts::take(const Box& box, const Box& whole, Select select) {
  remains_.clear();
  const auto cut = [&](const Part& part) {
    if (!meets(part.box, box) || !select(part)) return false;
    without(part.box, box, [&](const Box& rest) { remains_.push_back({rest, part.piece, part.value, part.lane, part.ordinal}); });
    return true;
  };
  std::erase_if(long_, cut);
  if (!short_.empty()) {
    auto it = short_.upper_bound(box.lo[dim_] - reach_);
    while (it != short_.end() && it->first < box.hi[dim_]) it = cut(it->second) ? short_.erase(it) : std::next(it);
  }
  for (const Part& part : remains_) add(part, whole);
}

Contents::Contents(const Graph& graph, const Program& program)
    : graph_(graph), program_(program), contents_of_(std::ssize(program.pieces)), stores_(std::ssize(program.pieces)) {
  for (std::int64_t p = 0; p < contents_of_.size(); ++p) contents_of_[PieceId(p)] = PieceId(p);
}

void Contents::join_pieces() {
  for (PieceId& content : contents_of_)
    while (program_.replaces_parts(program_.piece(content))) content = program_.piece(content).shares;
}

void Contents::place(ValueId value, PieceId id) {
  Store& s = store(id);
  if (s.owns) {
    if (s.value != value)
      internal_error("program {}: {} and {} are both to be in piece {} at the start", program_.name, graph_.value(s.value).name,
                     graph_.value(value).name, label(id));
    return;
  }
  const Moment start;
  if (const PieceId other = begin(start, id, nullptr, false))
    internal_error("program {}: {} and {} overlap, but both hold a value at the start", program_.name, label(id), label(other));
  s.complete = true;
  s.piece = id;
  s.value = value;
}

ValueId Contents::read(const Moment& moment, const Access& access) const {
  const Store& s = store(access.piece);
  if (!s.owns) {
    if (s.destroyed_by)
      internal_error("program {}: {} reads {}, which {} has overwritten", program_.name, describe(moment), label(access.piece),
                     label(s.destroyed_by));
    internal_error("program {}: {} reads {}, which was never written", program_.name, describe(moment), label(access.piece));
  }
  if (!holds(access.piece, *access.holds, moment.iteration))
    internal_error("program {}: {} reads {} as if it held {}, but it holds {}", program_.name, describe(moment),
                   label(access.piece), to_string(access.holds->at(moment.iteration)), to_string(held_box(access.piece)));
  if (s.complete && s.piece == access.piece) {
    if (s.written > moment.before[index_of(s.lane)]) fail_order(moment, s.lane, s.written, kRead, access.piece, access.piece);
    return s.value;
  }
  if (s.complete && took_over(s.piece, access.piece))
    internal_error("program {}: {} reads {}, which {} has overwritten", program_.name, describe(moment), label(access.piece),
                   label(s.piece));
  ValueId value;
  std::int64_t elements = 0;
  if (!s.complete && !s.parts)
    internal_error("program {}: {} reads {}, which is scratch", program_.name, describe(moment), label(access.piece));
  const Box box = access.box->at(moment.iteration);
  const auto take = [&](const Part& part) {
    if (took_over(part.piece, access.piece))
      internal_error("program {}: {} reads {} {}, of which {} has overwritten {}", program_.name, describe(moment),
                     label(access.piece), to_string(box), label(part.piece), to_string(intersect(part.box, box)));
    if (part.piece != access.piece) return;  // is still to be taken over
    expect_order(moment, part, kRead, access.piece);
    if (value && value != part.value)
      internal_error("program {}: {} reads {} {}, which holds parts of both {} and {}", program_.name, describe(moment),
                     label(access.piece), to_string(box), graph_.value(value).name, graph_.value(part.value).name);
    value = part.value;
    elements += intersect(part.box, box).elements();
  };
  if (!s.complete) s.parts->written.each(box, take);
  if (elements != box.elements())
    internal_error("program {}: {} reads {} {}, of which {} elements were never written", program_.name, describe(moment),
                   label(access.piece), to_string(box), box.elements() - elements);
  return value;
}

void Contents::record_read(const Moment& moment, const Access& access) {
  Store& s = store(access.piece);
  const std::size_t lane = index_of(moment.lane);
  // What this very instruction has overwritten in place needs no more than that.
  if (s.owns && holds(access.piece, *access.holds, moment.iteration)) {
    if (!same(*access.box, *access.holds, moment.iteration)) {
      const Box box = access.box->at(moment.iteration);
      const Box held = held_box(access.piece);
      // Of one lane only the latest read of an element matters: what follows it follows those before.
      Parts& read = parts_of(s).read;
      read.take(box, held, [&](const Part& part) { return part.lane == moment.lane; });
      read.add({box, access.piece, {}, moment.lane, moment.ordinal}, held);
    } else if (s.parts) {
      s.parts->whole[lane] = moment.ordinal;
    }
  }
  s.accesses[lane] = moment.ordinal;
}

void Contents::write(const Moment& moment, const Access& access, ValueId value) {
  Store& s = store(access.piece);
  const bool whole = same(*access.box, *access.holds, moment.iteration);
  if (!s.owns || !holds(access.piece, *access.holds, moment.iteration))
    begin(moment, access.piece, access.holds, !whole);
  else if (whole)
    expect_order(moment, s.accesses, kWrite, access.piece, access.piece);
  if (!whole) {
    write_part(moment, access, value);
    s.accesses[index_of(moment.lane)] = moment.ordinal;
    return;
  }
  s.holds = access.holds;
  s.iteration = moment.iteration;
  s.complete = true;
  s.piece = access.piece;
  s.value = value;
  s.lane = moment.lane;
  s.written = moment.ordinal;
  s.accesses[index_of(moment.lane)] = moment.ordinal;
  if (s.parts) {
    s.parts->written.clear();
    s.parts->read.clear();
    s.parts->whole = s.accesses;
  }
}

void Contents::write_part(const Moment& moment, const Access& access, ValueId value) {
  Store& s = store(access.piece);
  const Box box = access.box->at(moment.iteration);
  const Box held = held_box(access.piece);
  InParts& parts = parts_of(s);
  if (s.complete) {
    parts.written.add({held, s.piece, s.value, s.lane, s.written}, held);
    s.complete = false;
  }
  const auto ordered = [&](const Part& part) {
    expect_order(moment, part, kWrite, access.piece);
    return true;
  };
  expect_order(moment, parts.whole, kWrite, access.piece, access.piece);
  parts.read.take(box, held, ordered);
  parts.written.take(box, held, ordered);
  parts.written.add({box, access.piece, value, moment.lane, moment.ordinal}, held);
}

void Contents::scratch(const Moment& moment, PieceId id) {
  Store& s = store(id);
  if (!s.owns || s.complete || s.holds)
    begin(moment, id, nullptr, false);
  else
    expect_order(moment, s.accesses, kWrite, id, id);
  s.accesses[index_of(moment.lane)] = moment.ordinal;
}

// All accesses until now were to the whole, or before this content.
Contents::InParts& Contents::parts_of(Store& store) {
  if (!store.parts) {
    store.parts = std::make_unique<InParts>();
    store.parts->whole = store.accesses;
  }
  return *store.parts;
}

// What the piece holds; nothing if it is scratch.
Box Contents::held_box(PieceId id) const {
  const Store& s = store(id);
  if (s.holds) return s.holds->at(s.iteration);
  return s.value ? Box::whole(type_of(graph_, program_.piece(id)).shape) : Box{};
}

bool Contents::holds(PieceId id, const MovingBox& box, std::int64_t iteration) const {
  const Store& s = store(id);
  if (s.holds == &box && (s.iteration == iteration || !box.moves())) return true;
  return held_box(id) == box.at(iteration);
}

// Whether a piece has taken over the bytes of another, be it through others.
bool Contents::took_over(PieceId piece, PieceId other) const {
  if (piece == other) return false;
  while (piece && piece != other) piece = program_.piece(piece).shares;
  return piece.valid();
}

// The piece starts to hold `holds`: what its bytes held before is gone.
PieceId Contents::begin(const Moment& moment, PieceId id, const MovingBox* holds, bool in_parts) {
  Store& s = store(id);
  expect_order(moment, s.accesses, kWrite, id, id);
  Ordinals earlier = s.accesses;
  const PieceId destroyed = s.owns ? PieceId{} : claim(moment, id, earlier);
  s.owns = true;
  s.holds = holds;
  s.iteration = moment.iteration;
  s.complete = false;
  s.value = {};
  s.destroyed_by = {};
  if (in_parts || s.parts) {
    InParts& parts = parts_of(s);
    parts.written.clear();
    parts.read.clear();
    parts.whole = earlier;
  }
  return destroyed;
}

// Takes the piece's bytes from whoever has them.
PieceId Contents::claim(const Moment& moment, PieceId id, Ordinals& earlier) {
  const Piece& piece = program_.piece(id);
  if (piece.bytes == 0) return {};
  id = content_of(id);
  const std::int64_t first = piece.offset;
  const std::int64_t end = piece.offset + piece.bytes;
  Owners& owners = owners_[piece.tier];
  PieceId destroyed;
  auto range = owners.lower_bound(first);
  if (range != owners.begin() && std::prev(range)->second.end > first) --range;
  while (range != owners.end() && range->first < end) {
    const auto [range_end, owner] = range->second;
    if (owner != id) {
      Store& other = store(owner);
      expect_order(moment, other.accesses, kWrite, id, owner);
      raise_to(earlier, other.accesses);
      if (other.owns) destroyed = owner;
      other.owns = false;
      other.destroyed_by = id;
    }
    const std::int64_t range_begin = range->first;
    if (range_begin == first && range_end == end) {  // the usual case: the bytes change hands as they are
      range->second.piece = id;
      return destroyed;
    }
    range = owners.erase(range);
    if (range_begin < first) owners.emplace_hint(range, range_begin, Range{first, owner});
    if (range_end > end) range = owners.emplace_hint(range, end, Range{range_end, owner});
  }
  owners.emplace_hint(range, first, Range{end, id});
  return destroyed;
}

void Contents::expect_at_end(ValueId value, PieceId id) const {
  Moment end;
  end.before.fill(std::numeric_limits<std::int64_t>::max());
  const MovingBox whole(Box::whole(graph_.value(value).type.shape));
  ValueId found = read(end, {id, &whole, &whole});
  const ValueId last = found;
  while (found && found != value) found = graph_.value(found).version_of;
  if (found != value)
    internal_error("program {}: {} should be in piece {} at the end, but {} is there", program_.name, graph_.value(value).name,
                   label(id), graph_.value(last).name);
}

void Contents::expect_order(const Moment& moment, const Ordinals& accesses, const char* what, PieceId mine, PieceId theirs) const {
  for (std::size_t l = 0; l < kLanes; ++l)
    if (accesses[l] > moment.before[l]) fail_order(moment, static_cast<Lane>(l), accesses[l], what, mine, theirs);
}

void Contents::expect_order(const Moment& moment, const Part& part, const char* what, PieceId mine) const {
  if (part.ordinal > moment.before[index_of(part.lane)]) fail_order(moment, part.lane, part.ordinal, what, mine, mine);
}

void Contents::fail_order(const Moment& moment, Lane lane, std::int64_t ordinal, const char* what, PieceId mine,
                          PieceId theirs) const {
  // Which instruction that was is worth finding only now.
  std::int64_t issued = 0;
  std::size_t loop = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program_.instructions.size());) {
    const bool looping = loop < program_.loops.size() && program_.loops[loop].begin <= i;
    const std::int32_t end = looping ? program_.loops[loop].end : i + 1;
    const std::int64_t count = looping ? program_.loops[loop].count : 1;
    for (std::int64_t iteration = 0; iteration < count; ++iteration)
      for (std::int32_t k = i; k < end; ++k) {
        if (program_.instructions[k].lane != lane || ++issued != ordinal) continue;
        const std::string same = mine == theirs ? "" : fmt::format(" in the bytes of {}", label(theirs));
        internal_error("program {}: {} {} {}{}, but nothing makes it wait for {}: it needs {} >= {}", program_.name,
                       describe(moment), what, label(mine), same, describe(k, iteration), name_of(lane), ordinal);
      }
    if (looping) ++loop;
    i = end;
  }
  internal_error("program {}: {} {} {} unordered with instruction {} of lane {}", program_.name, describe(moment), what,
                 label(mine), ordinal, name_of(lane));
}

std::string Contents::describe(const Moment& moment) const {
  return moment.instruction < 0 ? "the caller" : describe(moment.instruction, moment.iteration);
}

std::string Contents::describe(std::int32_t index, std::int64_t iteration) const {
  const Instruction& instruction = program_.instructions[index];
  std::string text = fmt::format("instruction {} ({}", index, name_of(instruction.action));
  if (instruction.op) text += " " + graph_.op(instruction.op).name;
  text += fmt::format(" on {}", name_of(instruction.lane));
  for (const Loop& loop : program_.loops)
    if (loop.begin <= index && index < loop.end) text += fmt::format(", iteration {}", iteration);
  return text + ")";
}

}  // namespace outsize
