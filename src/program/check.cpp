#include "program/check.h"

#include <algorithm>
#include <map>
#include <memory_resource>

#include "base/bytes.h"
#include "base/id_vector.h"
#include "program/check_contents.h"

namespace outsize {
namespace {

// The bytes of two pieces meet.
bool overlap(const Piece& a, const Piece& b) {
  return a.tier == b.tier && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool disjoint(const Box& a, const Box& b) {
  for (int i = 0; i < a.rank(); ++i)
    if (a.lo[i] >= b.hi[i] || b.lo[i] >= a.hi[i]) return true;
  return false;
}

// The items in the order of their keys, which are instructions of a program of `count`; equal keys keep their order.
template <class Key>
std::vector<std::size_t> sorted_by(const std::vector<std::size_t>& items, std::int32_t count, Key key) {
  std::vector<std::size_t> begins(count + 2, 0);
  for (const std::size_t item : items) ++begins[key(item) + 1];
  for (std::size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  std::vector<std::size_t> sorted(items.size());
  for (const std::size_t item : items) sorted[begins[key(item)]++] = item;
  return sorted;
}

class ProgramChecker {
 public:
  ProgramChecker(const Graph& graph, const Program& program)
      : graph_(graph), program_(program), contents_(graph, program), fitting_(std::ssize(program.pieces)) {}

  void run(std::int64_t device_budget) {
    check_pieces();
    check_peaks(device_budget);
    check_lifetimes();
    check_loops();
    contents_.join_pieces();
    for (const Binding& binding : program_.inputs) contents_.place(binding.value, bound(binding));
    for (const Binding& binding : program_.persistent) contents_.place(binding.value, bound(binding));
    walk();
    for (const Binding& binding : program_.outputs) contents_.expect_at_end(binding.value, bound(binding));
    IdVector<ValueId, ValueId> next(graph_.value_count());  // the version that replaces a value
    for (std::int64_t v = 0; v < graph_.value_count(); ++v)
      if (const ValueId old = graph_.value(ValueId(v)).version_of) next[old] = ValueId(v);
    for (const Binding& binding : program_.persistent) {
      ValueId newest = binding.value;
      while (const ValueId after = next[newest]) newest = after;
      contents_.expect_at_end(newest, binding.piece);
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    internal_error("program {}: {}", program_.name, fmt::format(format, std::forward<Args>(args)...));
  }
  std::int32_t count() const { return static_cast<std::int32_t>(program_.instructions.size()); }
  bool exists(PieceId id) const { return id && id.index < static_cast<std::int32_t>(program_.pieces.size()); }
  bool same_type(ValueId a, ValueId b) const { return a == b || graph_.value(a).type == graph_.value(b).type; }
  // Pieces that no instruction and no binding needs have no place.
  static bool placed(const Piece& piece) { return piece.offset >= 0; }

  PieceId bound(const Binding& binding) const {
    const Value& value = graph_.value(binding.value);
    if (!exists(binding.piece)) fail("{} has no piece", value.name);
    const Piece& piece = program_.piece(binding.piece);
    if (!placed(piece)) fail("{} of {} has no offset", label_of(graph_, piece), value.name);
    if (!piece.value) fail("{} is bound to {}, which holds no value", value.name, label_of(graph_, piece));
    if (!same_type(piece.value, binding.value))
      fail("{}, which is {}, is bound to {}, which is {}", value.name, to_string(value.type), label_of(graph_, piece),
           to_string(type_of(graph_, piece)));
    if (piece.tier != Tier::source && piece.bytes < stored_bytes(program_.storage, value.type, value.type.shape))
      fail("{} is bound to {}, whose {} bytes cannot hold it", value.name, label_of(graph_, piece), piece.bytes);
    return binding.piece;
  }

  // --- what holds without running anything

  void check_pieces() const {
    for (const Piece& piece : program_.pieces) {
      if (piece.bytes < 0 || (piece.tier == Tier::source && piece.bytes > 0))
        fail("{} has {} bytes", label_of(graph_, piece), piece.bytes);
      if (piece.value.index >= graph_.value_count())
        fail("piece {} is for a value that does not exist", &piece - program_.pieces.data());
      if (placed(piece) && !piece.persistent &&
          (piece.first < 0 || piece.first > piece.last || piece.last > std::max(0, count() - 1)))
        fail("{} lives from instruction {} to {} of {}", label_of(graph_, piece), piece.first, piece.last, count());
      if (!piece.shares) continue;
      if (!exists(piece.shares)) fail("{} shares the bytes of a piece that does not exist", label_of(graph_, piece));
      const Piece& other = program_.piece(piece.shares);
      if (other.tier != piece.tier || other.offset != piece.offset)
        fail("{} at {} is to take over the bytes of {} at {}", label_of(graph_, piece), piece.offset, label_of(graph_, other),
             other.offset);
      if (!program_.replaces_parts(piece)) continue;
      if (!piece.value || !other.value || other.value.index >= graph_.value_count())
        fail("{} is to take over part by part the bytes of {}, but not both are for a value", label_of(graph_, piece),
             &other - program_.pieces.data());
      const ValueType &type = type_of(graph_, piece), &taken = type_of(graph_, other);
      if (type != taken || piece.bytes != other.bytes)
        fail("{}, {} in {} bytes, is to take over part by part the bytes of {}, {} in {}", label_of(graph_, piece), to_string(type),
             piece.bytes, label_of(graph_, other), to_string(taken), other.bytes);
    }
  }

  void check_peaks(std::int64_t device_budget) const {
    ByTier<std::int64_t> peaks;
    for (const Piece& piece : program_.pieces) {
      if (!placed(piece) || piece.tier == Tier::source) continue;
      std::int64_t& peak = peaks[piece.tier];
      peak = std::max(peak, piece.offset + piece.bytes);
    }
    for (const Tier tier : kTiers)
      if (peaks[tier] != program_.peak_bytes[tier])
        fail("the {} peak is stated as {} bytes, but its pieces reach {}", name_of(tier), program_.peak_bytes[tier], peaks[tier]);
    if (peaks.device > device_budget)
      fail("the device peak of {} bytes exceeds the budget of {} by {} bytes", peaks.device, device_budget,
           peaks.device - device_budget);
  }

  // No two pieces that live at the same instruction share a byte, except by taking over in place: such a chain counts as one piece.
  void check_lifetimes() const {
    struct Life {
      std::int64_t first, last, end;
    };
    const auto pieces = program_.pieces.size();
    std::vector<Life> lives(pieces, {0, -1, 0});
    for (std::size_t p = 0; p < pieces; ++p) {
      const Piece& piece = program_.pieces[p];
      if (!placed(piece) || piece.bytes == 0) continue;
      std::size_t root = p;
      for (std::size_t steps = 0; program_.pieces[root].shares; ++steps) {
        if (steps == pieces) fail("{} shares bytes with itself", label_of(graph_, piece));
        root = static_cast<std::size_t>(program_.pieces[root].shares.index);
      }
      Life& life = lives[root];
      const std::int64_t first = piece.persistent ? 0 : piece.first;
      const std::int64_t last = piece.persistent ? std::max(0, count() - 1) : piece.last;
      life = life.last < 0 ? Life{first, last, 0} : Life{std::min(life.first, first), std::max(life.last, last), life.end};
      life.end = std::max(life.end, piece.offset + piece.bytes);
    }
    std::vector<std::size_t> roots;
    for (std::size_t p = 0; p < pieces; ++p)
      if (lives[p].last >= 0) roots.push_back(p);
    const std::vector<std::size_t> ending = sorted_by(roots, count(), [&](std::size_t p) { return lives[p].last; });
    auto gone = ending.begin();
    std::pmr::unsynchronized_pool_resource memory;
    using Live = std::pmr::map<std::int64_t, std::size_t>;
    ByTier<Live> live{Live(&memory), Live(&memory), Live(&memory)};  // by offset
    std::vector<Live::iterator> entries(pieces);
    for (const std::size_t p : sorted_by(roots, count(), [&](std::size_t q) { return lives[q].first; })) {
      for (; lives[*gone].last < lives[p].first; ++gone) live[program_.pieces[*gone].tier].erase(entries[*gone]);
      const Piece& piece = program_.pieces[p];
      auto& here = live[piece.tier];
      const auto above = here.lower_bound(piece.offset);
      const auto below = above == here.begin() ? here.end() : std::prev(above);
      for (const auto& other : {above, below}) {
        if (other == here.end() || other->first >= lives[p].end || lives[other->second].end <= piece.offset) continue;
        fail("{} at {} and {} at {} overlap and both live at instruction {}", label_of(graph_, piece), piece.offset,
             label_of(graph_, program_.pieces[other->second]), other->first, lives[p].first);
      }
      entries[p] = here.emplace_hint(above, piece.offset, p);
    }
  }

  void check_loops() const {
    std::int32_t end = 0;
    for (const Loop& loop : program_.loops) {
      if (loop.begin < end || loop.end <= loop.begin || loop.end > count() || loop.count < 1)
        fail("a loop of instructions {} to {} runs {} times, after one that ends at {} (of {})", loop.begin, loop.end, loop.count,
             end, count());
      end = loop.end;
    }
  }

  // --- what happens

  void walk() {
    std::size_t loop = 0;
    for (std::int32_t i = 0; i < count();) {
      const bool looping = loop < program_.loops.size() && program_.loops[loop].begin == i;
      const std::int32_t end = looping ? program_.loops[loop].end : i + 1;
      const std::int64_t iterations = looping ? program_.loops[loop].count : 1;
      for (std::int64_t iteration = 0; iteration < iterations; ++iteration)
        for (std::int32_t k = i; k < end; ++k) visit(k, iteration);
      if (looping) ++loop;
      i = end;
    }
  }

  void visit(std::int32_t index, std::int64_t iteration) {
    const Instruction& instruction = program_.instructions[index];
    order_.issue(instruction.lane);
    moment_.instruction = index;
    moment_.iteration = iteration;
    moment_.lane = instruction.lane;
    moment_.ordinal = order_.issued(instruction.lane);
    for (const Wait& wait : instruction.waits) {
      const std::int64_t wanted = wait.count + iteration * wait.per_iteration;
      if (!order_.wait(instruction.lane, wait.lane, wanted))
        fail("{} waits for {} >= {}, but only {} are issued before it: a deadlock", here(), name_of(wait.lane), wanted,
             order_.issued(wait.lane) - (wait.lane == instruction.lane ? 1 : 0));
    }
    moment_.before = order_.before(instruction.lane);

    resolve(instruction.reads, reads_);
    resolve(instruction.writes, writes_);
    check_form(instruction);
    check_aliases(instruction);
    touch(instruction);
  }

  struct Resolved {
    Access access;
    bool empty = false;
  };

  void resolve(std::span<const Operand> operands, std::vector<Resolved>& resolved) {
    resolved.clear();
    for (const Operand& operand : operands) {
      if (!exists(operand.piece)) fail("{} names a piece that does not exist", here());
      if (!program_.boxes.has(operand.holds) || !program_.boxes.has(operand.box))
        fail("{} names a box that does not exist", here());
      const Piece& piece = program_.piece(operand.piece);
      const MovingBox& holds = program_.boxes[operand.holds];
      const MovingBox& box = program_.boxes[operand.box];
      if (!piece.value) fail("{} takes {}, which holds no value", here(), label_of(graph_, piece));
      if (box.start.rank() != holds.start.rank() || (box.moves() && box.step.rank() != box.start.rank()) ||
          (holds.moves() && holds.step.rank() != holds.start.rank()))
        fail("{} takes {} {} of {}, which is {}", here(), label_of(graph_, piece), to_string(box.start), to_string(holds.start),
             to_string(type_of(graph_, piece)));
      const bool zero = program_.instructions[moment_.instruction].action == Action::zero;
      const Access access{operand.piece, &holds, zero ? &holds : &box};
      const bool empty = access.box->start.empty();
      if (!empty) check_access(piece, access);
      resolved.push_back({access, empty});
    }
  }

  void check_access(const Piece& piece, const Access& access) {
    if (!placed(piece)) fail("{} takes {}, which has no offset", here(), label_of(graph_, piece));
    if (!piece.persistent && (moment_.instruction < piece.first || moment_.instruction > piece.last))
      fail("{} takes {}, which lives from instruction {} to {}", here(), label_of(graph_, piece), piece.first, piece.last);
    if (access.box != access.holds && !access.holds->at(moment_.iteration).contains(access.box->at(moment_.iteration)))
      fail("{} takes {} of {}, which holds only {}", here(), to_string(access.box->at(moment_.iteration)), label_of(graph_, piece),
           to_string(access.holds->at(moment_.iteration)));
    const MovingBox*& fitting = fitting_[access.piece];
    if (fitting == access.holds && !fitting->moves()) return;
    fitting = access.holds;
    const ValueType& type = type_of(graph_, piece);
    const Box holds = access.holds->at(moment_.iteration);
    if (holds.rank() != type.shape.rank() || !Box::whole(type.shape).contains(holds))
      fail("{} takes {} as holding {}, outside {}", here(), label_of(graph_, piece), to_string(holds), to_string(type));
    const std::int64_t bytes = stored_bytes(program_.storage, type, holds.shape());
    if (piece.tier != Tier::source && bytes > piece.bytes)
      fail("{} takes {} as holding {}: {} bytes in a piece of {}", here(), label_of(graph_, piece), to_string(holds), bytes,
           piece.bytes);
  }

  // The operands are those that the action takes, of the right tier and type.
  void check_form(const Instruction& instruction) const {
    const auto count_is = [&](std::size_t reads, std::size_t writes) {
      if (reads_.size() != reads || writes_.size() != writes)
        fail("{} takes {} reads and {} writes, expected {} and {}", here(), reads_.size(), writes_.size(), reads, writes);
    };
    const auto moves = [&](Tier from, Tier to) {
      count_is(1, 1);
      const auto is = [&](const Resolved& operand, Tier wanted, Tier other) {
        return tier(operand) == wanted || (from != to && tier(operand) == other);
      };
      const bool disk_in = from == Tier::disk, disk_out = to == Tier::disk;
      if (!is(reads_[0], from,
              disk_in    ? Tier::source
              : disk_out ? Tier::device
                         : from) ||
          !is(writes_[0], to, disk_in ? Tier::device : to))
        fail("{} moves from {} to {}", here(), name_of(tier(reads_[0])), name_of(tier(writes_[0])));
      expect_same_box();
    };
    switch (instruction.action) {
      case Action::kernel: return check_kernel(instruction);
      case Action::copy: return moves(Tier::device, Tier::device);
      case Action::copy_out: return moves(Tier::device, Tier::host);
      case Action::copy_in: return moves(Tier::host, Tier::device);
      case Action::disk_out: return moves(Tier::host, Tier::disk);
      case Action::disk_in: return moves(Tier::disk, Tier::host);
      case Action::zero: return count_is(0, 1);
      case Action::combine:
        count_is(2, 1);
        if (reads_[1].access.piece != writes_[0].access.piece || !is_same(reads_[1].access.box, writes_[0].access.box))
          fail("{} adds to {} but does not read the same of it", here(), label(writes_[0]));
        return expect_same_box();
    }
  }

  void check_kernel(const Instruction& instruction) const {
    if (!instruction.op || instruction.op.index >= graph_.op_count()) fail("{} runs an op that does not exist", here());
    const Op& op = graph_.op(instruction.op);
    if (reads_.size() != op.inputs.size() || writes_.size() != op.outputs.size())
      fail("{} takes {} reads and {} writes, expected {} and {}", here(), reads_.size(), writes_.size(), op.inputs.size(),
           op.outputs.size());
    if (instruction.owned && !program_.boxes.has(instruction.owned)) fail("{} owns a box that does not exist", here());
    const Tier where = instruction.lane == Lane::host ? Tier::host : Tier::device;
    const auto check = [&](const Resolved& r, ValueId value) {
      if (tier(r) != where) fail("{} takes {} in the {} tier", here(), label(r), name_of(tier(r)));
      const Piece& piece = program_.piece(r.access.piece);
      if (!same_type(piece.value, value))
        fail("{} takes {} as {}, which is {}", here(), label(r), graph_.value(value).name, to_string(graph_.value(value).type));
    };
    for (std::size_t i = 0; i < reads_.size(); ++i) check(reads_[i], op.inputs[i]);
    for (std::size_t i = 0; i < writes_.size(); ++i) check(writes_[i], op.outputs[i]);
  }

  void expect_same_box() const {
    const Access& from = reads_[0].access;
    const Access& to = writes_[0].access;
    if (!is_same(from.box, to.box) || !same_type(program_.piece(from.piece).value, program_.piece(to.piece).value))
      fail("{} moves {} {} to {} {}", here(), label(reads_[0]), to_string(from.box->at(moment_.iteration)), label(writes_[0]),
           to_string(to.box->at(moment_.iteration)));
  }
  bool is_same(const MovingBox* a, const MovingBox* b) const { return same(*a, *b, moment_.iteration); }

  // Within an instruction nothing that is written meets anything else it touches, unless the op may run in place there.
  void check_aliases(const Instruction& instruction) const {
    const PieceId scratch = instruction.workspace;
    for (std::size_t w = 0; w < writes_.size(); ++w) {
      if (writes_[w].empty) continue;
      const Piece& target = program_.piece(writes_[w].access.piece);
      if (scratch && overlap(target, program_.piece(scratch)))
        fail("{} writes {} into its own workspace", here(), label_of(graph_, target));
      for (std::size_t other = 0; other < w; ++other)
        if (!writes_[other].empty && clash(writes_[w].access, writes_[other].access))
          fail("{} writes {} and {} to the same bytes", here(), label_of(graph_, target), label(writes_[other]));
      for (std::size_t r = 0; r < reads_.size(); ++r) {
        if (reads_[r].empty || !clash(writes_[w].access, reads_[r].access)) continue;
        if (!in_place(instruction, w, r))
          fail("{} writes {} over {}, which it reads, and may not do so in place", here(), label_of(graph_, target),
               label(reads_[r]));
      }
    }
    if (!scratch) return;
    if (!exists(scratch)) fail("{} has a workspace that does not exist", here());
    const Piece& piece = program_.piece(scratch);
    const Tier where = instruction.lane == Lane::host ? Tier::host : Tier::device;
    if (!placed(piece) || moment_.instruction < piece.first || moment_.instruction > piece.last || piece.tier != where)
      fail("{} has the workspace {}, which is not there", here(), label_of(graph_, piece));
    for (const Resolved& r : reads_)
      if (!r.empty && overlap(piece, program_.piece(r.access.piece))) fail("{} reads {} from its own workspace", here(), label(r));
  }

  bool clash(const Access& a, const Access& b) const {
    if (a.piece == b.piece)
      return !is_same(a.holds, b.holds) || !disjoint(a.box->at(moment_.iteration), b.box->at(moment_.iteration));
    return overlap(program_.piece(a.piece), program_.piece(b.piece));
  }

  bool in_place(const Instruction& instruction, std::size_t write, std::size_t read) const {
    const Access& to = writes_[write].access;
    const Access& from = reads_[read].access;
    if (!is_same(to.holds, from.holds) || !is_same(to.box, from.box)) return false;
    if (to.piece != from.piece && program_.piece(to.piece).shares != from.piece) return false;
    if (instruction.action == Action::combine) return read == 1;
    if (instruction.action != Action::kernel) return false;
    const OpSite site{graph_, graph_.op(instruction.op)};
    const auto allows = [&](const InPlacePairs& pairs) {
      return std::any_of(pairs.begin(), pairs.end(), [&](const InPlacePair& pair) {
        return pair.output == static_cast<int>(write) && pair.input == static_cast<int>(read);
      });
    };
    return allows(site.op.def->in_place(site)) || allows(site.op.updates);
  }

  void touch(const Instruction& instruction) {
    ValueId moved;
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      if (reads_[i].empty) continue;
      const ValueId found = contents_.read(moment_, reads_[i].access);
      if (i == 0) moved = found;
      const ValueId wanted = instruction.action == Action::kernel ? graph_.op(instruction.op).inputs[i] : moved;
      if (found != wanted)
        fail("{} expects {} in {}, but {} was written there", here(), name(wanted), label(reads_[i]), name(found));
    }
    if (instruction.workspace) contents_.scratch(moment_, instruction.workspace);
    for (std::size_t i = 0; i < writes_.size(); ++i) {
      if (writes_[i].empty) continue;
      ValueId value = moved;
      if (instruction.action == Action::kernel) value = graph_.op(instruction.op).outputs[i];
      if (instruction.action == Action::zero) value = program_.piece(writes_[i].access.piece).value;
      contents_.write(moment_, writes_[i].access, value);
    }
    for (const Resolved& r : reads_)
      if (!r.empty) contents_.record_read(moment_, r.access);
  }

  std::string here() const { return contents_.describe(moment_); }
  std::string label(const Resolved& r) const { return label_of(graph_, program_.piece(r.access.piece)); }
  std::string name(ValueId value) const { return value ? graph_.value(value).name : "nothing"; }
  Tier tier(const Resolved& r) const { return program_.piece(r.access.piece).tier; }

  const Graph& graph_;
  const Program& program_;
  Contents contents_;
  HappensBefore order_;
  Moment moment_;
  IdVector<PieceId, const MovingBox*> fitting_;  // what a piece last held, which fits into it
  std::vector<Resolved> reads_;                  // of the instruction at hand; reused
  std::vector<Resolved> writes_;
};

}  // namespace

void check_program(const Graph& graph, const Program& program, std::int64_t device_budget) {
  ProgramChecker(graph, program).run(device_budget);
}

}  // namespace outsize
