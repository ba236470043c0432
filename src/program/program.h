#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/few.h"
#include "ops/kernel.h"
#include "plan/plan.h"
#include "program/boxes.h"

namespace outsize {

// In-order queues of instructions that run beside each other.
enum class Lane : std::uint8_t { compute, copy_out, copy_in, disk_out, disk_in, host };
inline constexpr int kLanes = 6;
std::string_view name_of(Lane lane);

// A range of bytes of one tier's arena, with a lifetime in program order. It holds one box of one value at a time.
// A piece may take over the bytes of another (`shares`): at the instruction that reads the one and makes the other, in place; or,
// where their lives overlap, part by part. Both then hold the same box of values of one type, and an element is the one's until
// the other is written there.
struct Piece {
  ValueId value;          // none for workspace
  OpId op;                // of workspace: whose it is
  const char* part = "";  // what of the value it is for, in words: " carry"
  Tier tier = Tier::device;
  std::int64_t bytes = 0;  // none of a source
  std::int64_t offset = -1;
  std::int32_t first = -1;  // positions in Program::instructions, both inclusive
  std::int32_t last = -1;
  bool persistent = false;  // lives through the whole program and from step to step
  PieceId shares;           // the piece whose bytes this one takes over (it has the same offset)
};

// One access: `box` of the piece's value, which holds `holds` (dense) at that moment.
struct Operand {
  PieceId piece;
  BoxId holds;
  BoxId box;
};

enum class Action : std::uint8_t {
  kernel,    // reads → writes by the op's kernel, with workspace; all of it on the device, or on lane host all in the host tier
  copy,      // device → device: reads[0].box → writes[0].box (equal boxes)
  combine,   // reads[0] into writes[0] (equal boxes; reads[1] is the accumulator too)
  zero,      // fills writes[0].holds with zeros (for a welford accumulator too: count 0)
  copy_out,  // device → host
  copy_in,   // host → device
  disk_out,  // host or device → disk
  disk_in,   // disk or source → host or device
};
std::string_view name_of(Action action);

// Wait until `lane` has completed `count` + iteration × `per_iteration` instructions (loops unrolled) of this step.
struct Wait {
  Lane lane = Lane::compute;
  std::int64_t count = 0;
  std::int64_t per_iteration = 0;
};

// An instruction declares what it touches; checker, simulator and trace go by that.
struct Instruction {
  Action action = Action::kernel;
  Lane lane = Lane::compute;
  OpId op;  // for kernels
  Combine combine = Combine::none;
  bool recompute = false;  // a kernel that computes again what was computed before
  Few<Operand, 4> reads;
  Few<Operand, 2> writes;
  PieceId workspace;
  BoxId owned;  // of a kernel with owned terms
  std::vector<Wait> waits;
};

// instructions [begin, end) run `count` times; loops do not nest or overlap. Device offsets are the same in every iteration.
struct Loop {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int64_t count = 1;
};

// Where a value's bytes are at the start (inputs, persistent) or at the end (outputs, persistent) of a step.
struct Binding {
  ValueId value;
  PieceId piece;
};

struct Program {
  std::string name;
  std::string planner;
  StorageRule storage;
  std::vector<Piece> pieces;
  BoxTable boxes;  // that instructions name
  std::vector<Instruction> instructions;
  std::vector<Loop> loops;              // ascending
  std::map<OpId, std::string> kernels;  // names of the kernels that compute ops, where they are not the target's first
  std::vector<Binding> inputs;          // written before a step
  std::vector<Binding> outputs;         // readable after a step, besides the persistent ones
  std::vector<Binding> persistent;
  ByTier<std::int64_t> peak_bytes;      // highest offset + bytes of any piece
  std::int64_t live_bytes = 0;          // the largest sum of live device bytes at any instruction
  ByTier<std::int64_t> persistent_end;  // where the persistent values of the run end

  const Piece& piece(PieceId id) const { return pieces[id.index]; }
  Piece& piece(PieceId id) { return pieces[id.index]; }
  // The name of the kernel that computes the op; empty: the target's first.
  std::string_view kernel_of(OpId op) const {
    const auto found = kernels.find(op);
    return found == kernels.end() ? std::string_view() : std::string_view(found->second);
  }
  // Whether it takes over the bytes of another part by part.
  bool replaces_parts(const Piece& taker) const { return taker.shares && taker.first < piece(taker.shares).last; }
  // The operand that takes `box` of a piece that holds `holds`.
  Operand operand(PieceId piece, const MovingBox& holds, const MovingBox& box) { return {piece, boxes.add(holds), boxes.add(box)}; }
};

// Where persistent values lie, by name: the same in every program of a run, so that training, evaluation and batches of other sizes
// share them. What else a program needs lies behind them.
struct PersistentLayout {
  struct Place {
    Tier tier = Tier::device;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::string, Place> places;
  ByTier<std::int64_t> end;
};

// The layout of a lowered program, for the next ones of its run.
PersistentLayout layout_of(const Graph& graph, const Program& program);

// The call of a kernel instruction in iteration `iteration` of its loop.
Call call_of(const Graph& graph, const Program& program, const Instruction& instruction, std::int64_t iteration = 0);

// The type of a piece's value; workspace has none.
inline const ValueType& type_of(const Graph& graph, const Piece& piece) { return graph.value(piece.value).type; }

// What people call a piece: "conv1.out", "conv1.out carry", "workspace of conv1".
std::string label_of(const Graph& graph, const Piece& piece);

// Lanes, boxes, offsets and waits, one instruction a line; for people and text tests.
std::string print_program(const Graph& graph, const Program& program);

}  // namespace outsize
