#include "program/waits.h"

#include <algorithm>
#include <array>
#include <map>

namespace outsize {

namespace {

using Ordinals = std::array<std::int64_t, kLanes>;  // by lane: instructions completed, 0 for none

// The last accesses of a range of bytes.
struct Range {
  std::int64_t end = 0;
  int writer_lane = -1;
  std::int64_t written = 0;  // ordinal + 1 of the last write on its lane
  Ordinals read{};           // ordinal + 1 of the last read since, by lane
};

// One tier's bytes as disjoint ranges, by start.
class Arena {
 public:
  void read(std::int64_t begin, std::int64_t end, int lane, std::int64_t ordinal, Ordinals& need) {
    for (auto it = split(begin, end); it != ranges_.end() && it->first < end; ++it) {
      depend_on_write(it->second, lane, need);
      it->second.read[static_cast<std::size_t>(lane)] = ordinal;
    }
  }

  void write(std::int64_t begin, std::int64_t end, int lane, std::int64_t ordinal, Ordinals& need) {
    auto it = split(begin, end);
    while (it != ranges_.end() && it->first < end) {
      depend_on_write(it->second, lane, need);
      for (int other = 0; other < kLanes; ++other)
        if (other != lane) raise(need, other, it->second.read[static_cast<std::size_t>(other)]);
      it = ranges_.erase(it);
    }
    Range range;
    range.end = end;
    range.writer_lane = lane;
    range.written = ordinal;
    ranges_[begin] = range;
  }

  // Moves every access that happened in a loop's first (second) pass to its last iteration.
  template <class Move>
  void move_ordinals(Move&& move) {
    for (auto& [start, range] : ranges_) {
      if (range.writer_lane >= 0) range.written = move(range.writer_lane, range.written);
      for (int lane = 0; lane < kLanes; ++lane)
        range.read[static_cast<std::size_t>(lane)] = move(lane, range.read[static_cast<std::size_t>(lane)]);
    }
  }

 private:
  static void raise(Ordinals& need, int lane, std::int64_t ordinal) {
    std::int64_t& at = need[static_cast<std::size_t>(lane)];
    at = std::max(at, ordinal);
  }
  static void depend_on_write(const Range& range, int lane, Ordinals& need) {
    if (range.writer_lane >= 0 && range.writer_lane != lane) raise(need, range.writer_lane, range.written);
  }

  // Cuts ranges at `begin` and `end`, fills holes between them, and returns the first range at `begin`.
  std::map<std::int64_t, Range>::iterator split(std::int64_t begin, std::int64_t end) {
    for (const std::int64_t cut : {begin, end}) {
      auto after = ranges_.upper_bound(cut);
      if (after == ranges_.begin()) continue;
      auto before = std::prev(after);
      if (before->first == cut || before->second.end <= cut) continue;
      Range tail = before->second;
      before->second.end = cut;
      ranges_.emplace(cut, tail);
    }
    std::int64_t covered = begin;
    for (auto it = ranges_.lower_bound(begin); covered < end; ++it) {
      const std::int64_t next = it == ranges_.end() ? end : std::min(end, it->first);
      if (next > covered) {
        Range hole;
        hole.end = next;
        it = ranges_.emplace(covered, hole).first;
      }
      covered = it->second.end;
    }
    return ranges_.lower_bound(begin);
  }

  std::map<std::int64_t, Range> ranges_;
};

class Deriver {
 public:
  explicit Deriver(Program& program) : program_(program) {}

  void run() {
    std::size_t loop = 0;
    const std::int32_t count = static_cast<std::int32_t>(program_.instructions.size());
    for (std::int32_t i = 0; i < count;) {
      if (loop < program_.loops.size() && program_.loops[loop].begin == i) {
        visit(program_.loops[loop]);
        i = program_.loops[loop++].end;
      } else {
        visit(program_.instructions[static_cast<std::size_t>(i)], nullptr);
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
    for (std::int32_t i = loop.begin; i < loop.end; ++i)
      ++state.per_iteration[static_cast<std::size_t>(program_.instructions[static_cast<std::size_t>(i)].lane)];
    for (state.iteration = 0; state.iteration < std::min<std::int64_t>(loop.count, 2); ++state.iteration)
      for (std::int32_t i = loop.begin; i < loop.end; ++i) visit(program_.instructions[static_cast<std::size_t>(i)], &state);
    if (loop.count <= 2) return;
    const auto move = [&](int lane, std::int64_t ordinal) {
      const std::size_t l = static_cast<std::size_t>(lane);
      if (ordinal <= state.start[l]) return ordinal;
      const std::int64_t iteration = (ordinal - state.start[l] - 1) / state.per_iteration[l];
      return ordinal + (loop.count - 1 - iteration) * state.per_iteration[l];
    };
    for (Arena& arena : arenas_) arena.move_ordinals(move);
    for (int lane = 0; lane < kLanes; ++lane)
      issued_[static_cast<std::size_t>(lane)] += (loop.count - 2) * state.per_iteration[static_cast<std::size_t>(lane)];
  }

  void visit(Instruction& instruction, const LoopState* loop) {
    const int lane = static_cast<int>(instruction.lane);
    const std::int64_t ordinal = ++issued_[static_cast<std::size_t>(lane)];
    Ordinals need{};
    const auto touch = [&](PieceId id, bool write) {
      const Piece& piece = program_.piece(id);
      if (piece.bytes == 0) return;
      Arena& arena = arenas_[static_cast<std::size_t>(piece.tier)];
      if (write)
        arena.write(piece.offset, piece.offset + piece.bytes, lane, ordinal, need);
      else
        arena.read(piece.offset, piece.offset + piece.bytes, lane, ordinal, need);
    };
    for (const Operand& operand : instruction.reads) touch(operand.piece, false);
    for (const Operand& operand : instruction.writes) touch(operand.piece, true);
    if (instruction.workspace) touch(instruction.workspace, true);
    for (int other = 0; other < kLanes; ++other) add_wait(instruction, lane, other, need[static_cast<std::size_t>(other)], loop);
  }

  void add_wait(Instruction& instruction, int lane, int other, std::int64_t ordinal, const LoopState* loop) {
    const std::size_t o = static_cast<std::size_t>(other);
    std::int64_t& known = known_[static_cast<std::size_t>(lane)][o];
    if (ordinal <= known) return;
    known = ordinal;
    Wait wait{static_cast<Lane>(other), ordinal, 0};
    if (loop && ordinal > loop->start[o]) {  // on an instruction of the loop: moves with the iteration
      wait.per_iteration = loop->per_iteration[o];
      wait.count -= loop->iteration * wait.per_iteration;
    }
    for (Wait& present : instruction.waits)
      if (present.lane == wait.lane && (present.per_iteration == 0) == (wait.per_iteration == 0)) {
        present.count = std::max(present.count, wait.count);
        return;
      }
    instruction.waits.push_back(wait);
  }

  Program& program_;
  std::array<Arena, 3> arenas_;
  Ordinals issued_{};
  std::array<Ordinals, kLanes> known_{};  // what a lane has already waited for
};

}  // namespace

void derive_waits(Program& program) { Deriver(program).run(); }

}  // namespace outsize
