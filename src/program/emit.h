#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "plan/tiles/tiles.h"
#include "program/lower.h"

namespace outsize {

// Turns the steps of a plan into instructions over pieces without offsets or waits: the first phase of lowering.
class Emitter {
 public:
  Emitter(const Graph& graph, const Plan& plan, const LowerOptions& options);

  // Emits every step and returns the program; lifetimes (first, last) are set, offsets and waits are not.
  Program emit();

 private:
  // Where a whole value is now.
  struct Place {
    PieceId device;
    PieceId lower;  // in the host or disk tier
  };

  std::int32_t next_index() const { return static_cast<std::int32_t>(program_.instructions.size()); }
  PieceId new_piece(ValueId value, const char* part, Tier tier, const Box& box);
  PieceId new_whole_piece(ValueId value, Tier tier);
  Place& place(ValueId value) { return places_[value]; }
  BoxId whole_box(ValueId value);
  Operand whole_operand(PieceId piece, ValueId value);
  // Appends an instruction, books the workspace of kernels, and extends the lifetimes of what it touches.
  void append(Instruction instruction);
  std::int64_t workspace_of(const Instruction& instruction);
  void extend(PieceId piece, std::int32_t index);
  bool first_run(OpId op);  // and counts the run

  void place_persistent_and_inputs();
  void run(const RunStep& step);
  void run_on_host(const RunStep& step);
  void out(const OutStep& step);
  void in(const InStep& step);
  void drop(const DropStep& step);
  void finish();

  // Box transfers between a device operand and the value's piece in the lower tier (through a host staging piece where what has no
  // address is not read right into the device, or written from there).
  void store_lower(ValueId value, const Operand& from, const Operand& to);
  void load_lower(ValueId value, const Operand& from, const Operand& to);
  Operand staging_for(ValueId value, const Operand& like);

  friend class PassEmitter;

  const Graph& graph_;
  const Plan& plan_;
  const LowerOptions& options_;
  Program program_;
  IdVector<ValueId, Place> places_;
  IdVector<ValueId, BoxId> whole_boxes_;  // none: not asked for yet
  IdVector<OpId, bool> ran_;
  std::vector<IdSet<ValueId>> read_later_;  // by pass: the values that a step after it reads
  // Rows that one pass saves for a later one: (later pass, value, tile) → slot.
  struct Saved {
    PieceId piece;
    Box box;
  };
  std::map<std::pair<int, std::int32_t>, std::vector<std::pair<Dims, Saved>>> saved_;
};

}  // namespace outsize
