#include "program/waits.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory_resource>

#include "base/table.h"

namespace outsize {

namespace {

using Ordinals = std::array<std::int64_t, kLanes>;  // by lane: instructions completed, 0 for none

// The last accesses of a piece.
struct Accesses {
  bool owns = false;  // its bytes: nobody else has written there since
  int writer_lane = -1;
  std::int64_t written = 0;  // ordinal + 1 of the last write on its lane
  Ordinals read{};           // ordinal + 1 of the last read since, by lane
};

void raise(Ordinals& need, int lane, std::int64_t ordinal) {
  std::int64_t& at = need[lane];
  at = std::max(at, ordinal);
}

void depend_on_write(const Accesses& piece, int lane, Ordinals& need) {
  if (piece.writer_lane >= 0 && piece.writer_lane != lane) raise(need, piece.writer_lane, piece.written);
}

void depend_on_all(const Accesses& piece, int lane, Ordinals& need) {
  depend_on_write(piece, lane, need);
  for (int other = 0; other < kLanes; ++other)
    if (other != lane) raise(need, other, piece.read[other]);
}

// Who has which bytes of a tier.
class Owners {
 public:
  // Calls `lose` with every other piece that had some of the bytes.
  template <class Lose>
  void take(std::int64_t begin, std::int64_t end, std::int64_t piece, Lose&& lose) {
    auto range = ranges_.lower_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    while (range != ranges_.end() && range->first < end) {
      const auto [first, old] = *range;
      if (old.piece != piece) lose(old.piece);
      if (first == begin && old.end == end) {  // the usual case: the bytes change hands as they are
        range->second.piece = piece;
        return;
      }
      range = ranges_.erase(range);
      if (first < begin) ranges_.emplace_hint(range, first, Range{begin, old.piece});
      if (old.end > end) range = ranges_.emplace_hint(range, end, old);
    }
    ranges_.emplace_hint(range, begin, Range{end, piece});
  }

 private:
  struct Range {
    std::int64_t end;
    std::int64_t piece;
  };
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::map<std::int64_t, Range> ranges_{&memory_};  // disjoint, by begin
};

class Deriver {
 public:
  explicit Deriver(Program& program)
      : program_(program), pieces_(program.pieces.size()), elder_(program.pieces.size(), kNone), younger_(elder_), owner_(elder_) {
    for (std::int64_t p = 0; p < std::ssize(program.pieces); ++p) {
      owner_[p] = p;
      if (!program.replaces_parts(program.pieces[p])) continue;
      const std::int64_t from = program.pieces[p].shares.index;
      elder_[p] = from;
      younger_[from] = p;
      owner_[p] = owner_[from];
    }
  }

  void run() {
    std::size_t loop = 0;
    const std::int32_t count = static_cast<std::int32_t>(program_.instructions.size());
    for (std::int32_t i = 0; i < count;) {
      if (loop < program_.loops.size() && program_.loops[loop].begin == i) {
        visit(program_.loops[loop]);
        i = program_.loops[loop++].end;
      } else {
        visit(program_.instructions[i], nullptr);
        ++i;
      }
    }
  }

 private:
  struct LoopState {
    Ordinals start{};          // lanes' ordinals when the loop began
    Ordinals per_iteration{};  // instructions of each lane in the body
    int iteration = 0;
  };

  // Two iterations show every dependency: those on what came before the loop, within an iteration, and on the one before.
  void visit(const Loop& loop) {
    LoopState state;
    state.start = issued_;
    touched_.clear();
    for (std::int32_t i = loop.begin; i < loop.end; ++i) ++state.per_iteration[static_cast<int>(program_.instructions[i].lane)];
    for (state.iteration = 0; state.iteration < std::min<std::int64_t>(loop.count, 2); ++state.iteration)
      for (std::int32_t i = loop.begin; i < loop.end; ++i) visit(program_.instructions[i], &state);
    if (loop.count <= 2) return;
    const auto move = [&](int lane, std::int64_t ordinal) {
      if (ordinal <= state.start[lane]) return ordinal;
      const std::int64_t iteration = (ordinal - state.start[lane] - 1) / state.per_iteration[lane];
      return ordinal + (loop.count - 1 - iteration) * state.per_iteration[lane];
    };
    // Every access of the first two iterations stands for the same one of the last.
    for (const std::int64_t p : touched_) {
      Accesses& piece = pieces_[p];
      if (piece.writer_lane >= 0) piece.written = move(piece.writer_lane, piece.written);
      for (int lane = 0; lane < kLanes; ++lane) piece.read[lane] = move(lane, piece.read[lane]);
    }
    for (int lane = 0; lane < kLanes; ++lane) issued_[lane] += (loop.count - 2) * state.per_iteration[lane];
  }

  void visit(Instruction& instruction, const LoopState* loop) {
    const int lane = static_cast<int>(instruction.lane);
    const std::int64_t ordinal = ++issued_[lane];
    Ordinals need{};
    const auto touch = [&](PieceId id, bool write) {
      const Piece& piece = program_.piece(id);
      if (piece.bytes == 0) return;
      const std::int64_t p = id.index;
      Accesses& accesses = pieces_[p];
      if (loop) touched_.push_back(p);
      // Of those that hold parts of the same bytes the eldest stands for all.
      if (const std::int64_t owner = owner_[p]; !pieces_[owner].owns) {
        owners_[piece.tier].take(piece.offset, piece.offset + piece.bytes, owner, [&](std::int64_t other) {
          for (std::int64_t part = other; part != kNone; part = younger_[part]) depend_on_all(pieces_[part], lane, need);
          pieces_[other].owns = false;
        });
        pieces_[owner].owns = true;
      }
      if (write) {
        depend_on_all(accesses, lane, need);
        if (elder_[p] != kNone) depend_on_all(pieces_[elder_[p]], lane, need);
        accesses.read = {};
        accesses.writer_lane = lane;
        accesses.written = ordinal;
      } else {
        // What takes over its bytes has been written elsewhere in them.
        depend_on_write(accesses, lane, need);
        accesses.read[lane] = ordinal;
      }
    };
    for (const Operand& operand : instruction.reads) touch(operand.piece, false);
    for (const Operand& operand : instruction.writes) touch(operand.piece, true);
    if (instruction.workspace) touch(instruction.workspace, true);
    for (int other = 0; other < kLanes; ++other) add_wait(instruction, lane, other, need[other], loop);
  }

  void add_wait(Instruction& instruction, int lane, int other, std::int64_t ordinal, const LoopState* loop) {
    std::int64_t& known = known_[lane][other];
    if (ordinal <= known) return;
    known = ordinal;
    Wait wait{static_cast<Lane>(other), ordinal, 0};
    if (loop && ordinal > loop->start[other]) {  // on an instruction of the loop: moves with the iteration
      wait.per_iteration = loop->per_iteration[other];
      wait.count -= loop->iteration * wait.per_iteration;
    }
    for (Wait& present : instruction.waits)
      if (present.lane == wait.lane && (present.per_iteration == 0) == (wait.per_iteration == 0)) {
        present.count = std::max(present.count, wait.count);
        return;
      }
    instruction.waits.push_back(wait);
  }

  static constexpr std::int64_t kNone = -1;

  Program& program_;
  Table<Accesses> pieces_;
  Table<std::int64_t> elder_;    // by piece: the piece whose bytes it takes over part by part, or kNone
  Table<std::int64_t> younger_;  // by piece: the piece that takes over its bytes part by part, or kNone
  Table<std::int64_t> owner_;    // by piece: the first of those that take over each other's bytes so; itself where alone
  ByTier<Owners> owners_;
  Table<std::int64_t> touched_;  // in the loop at hand
  Ordinals issued_{};
  std::array<Ordinals, kLanes> known_{};  // what a lane has already waited for
};

}  // namespace

void derive_waits(Program& program) { Deriver(program).run(); }

}  // namespace outsize
