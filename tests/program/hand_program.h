#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/text.h"
#include "ops/registry.h"
#include "program/check.h"
#include "program/program.h"

namespace outsize {

inline Graph graph_of(std::string_view text) {
  register_ops();
  return parse_graph(text, "test.graph");
}

// A program written by hand. Instructions are added in issue order; finish() sets lifetimes and peaks from what was said.
class HandProgram {
 public:
  explicit HandProgram(const Graph& graph) : graph_(graph) {
    program.name = graph.name;
    program.planner = "hand";
  }

  // A piece for boxes of this value of up to `shape` (default: all of it).
  PieceId piece(std::string_view value_name, Tier tier, std::int64_t offset, Dims shape = {}) {
    const ValueId id = graph_.find_value(value_name);
    Piece made;
    made.value = id;
    made.tier = tier;
    made.bytes = stored_bytes(program.storage, type_of(graph_, made), shape.rank() == 0 ? type_of(graph_, made).shape : shape);
    made.offset = offset;
    return add_piece(std::move(made));
  }
  PieceId device(std::string_view value_name, std::int64_t offset, Dims shape = {}) {
    return piece(value_name, Tier::device, offset, shape);
  }
  PieceId workspace(std::int64_t offset, std::int64_t bytes) {
    Piece made;
    made.bytes = bytes;
    made.offset = offset;
    return add_piece(std::move(made));
  }

  void input(PieceId id) {
    program.inputs.push_back({program.piece(id).value, id});
    extend(id, 0);
  }
  void output(PieceId id) { program.outputs.push_back({program.piece(id).value, id}); }
  void persistent(PieceId id) {
    program.piece(id).persistent = true;
    program.persistent.push_back({program.piece(id).value, id});
  }

  Operand whole(PieceId id) {
    const Box box = Box::whole(type_of(graph_, program.piece(id)).shape);
    return program.operand(id, box, box);
  }

  Instruction& kernel(std::string_view op, std::vector<Operand> reads, std::vector<Operand> writes, std::vector<Wait> waits = {}) {
    Instruction& made = on(Lane::compute, Action::kernel, std::move(reads), std::move(writes), std::move(waits));
    made.op = graph_.find_op(op);
    return made;
  }
  // Any action but kernel, on its own lane.
  Instruction& move(Action action, std::vector<Operand> reads, std::vector<Operand> writes, std::vector<Wait> waits = {}) {
    Lane lane = Lane::compute;
    if (action == Action::copy_out) lane = Lane::copy_out;
    if (action == Action::copy_in) lane = Lane::copy_in;
    if (action == Action::disk_out) lane = Lane::disk_out;
    if (action == Action::disk_in) lane = Lane::disk_in;
    return on(lane, action, std::move(reads), std::move(writes), std::move(waits));
  }
  Instruction& on(Lane lane, Action action, std::vector<Operand> reads, std::vector<Operand> writes, std::vector<Wait> waits = {}) {
    const auto index = static_cast<std::int32_t>(program.instructions.size());
    for (const Operand& operand : reads) extend(operand.piece, index);
    for (const Operand& operand : writes) extend(operand.piece, index);
    Instruction made;
    made.action = action;
    made.lane = lane;
    made.reads = Few<Operand, 4>(reads);
    made.writes = Few<Operand, 2>(writes);
    made.waits = std::move(waits);
    program.instructions.push_back(std::move(made));
    return program.instructions.back();
  }
  void use_workspace(PieceId id) {
    program.instructions.back().workspace = id;
    extend(id, static_cast<std::int32_t>(program.instructions.size()) - 1);
  }
  void loop(std::int32_t begin, std::int64_t count) {
    program.loops.push_back({begin, static_cast<std::int32_t>(program.instructions.size()), count});
  }

  // Lifetimes of what is bound at the end or used in a loop, and the peaks.
  Program& finish() {
    const auto end = static_cast<std::int32_t>(program.instructions.size()) - 1;
    for (const Binding& binding : program.outputs) extend(binding.piece, end);
    for (const Loop& loop : program.loops)
      for (Piece& piece : program.pieces)
        if (piece.last >= loop.begin && piece.first < loop.end) {
          piece.first = std::min(piece.first, loop.begin);
          piece.last = std::max(piece.last, loop.end - 1);
        }
    program.peak_bytes = {};
    for (const Piece& piece : program.pieces) {
      std::int64_t& peak = program.peak_bytes[piece.tier];
      peak = std::max(peak, piece.offset + piece.bytes);
    }
    return program;
  }

  Program program;

 private:
  PieceId add_piece(Piece made) {
    program.pieces.push_back(std::move(made));
    return PieceId(static_cast<std::int64_t>(program.pieces.size()) - 1);
  }
  void extend(PieceId id, std::int32_t index) {
    Piece& piece = program.piece(id);
    piece.first = piece.first < 0 ? index : std::min(piece.first, index);
    piece.last = std::max(piece.last, index);
  }

  const Graph& graph_;
};

// `rows` of a value [rows, columns], moved by `step` rows an iteration.
inline Box rows(std::int64_t lo, std::int64_t hi, std::int64_t columns) { return {{lo, 0}, {hi, columns}}; }

// What the checker says, or "".
inline std::string verdict(const Graph& graph, const Program& program, std::int64_t budget = kNoLimit) {
  try {
    check_program(graph, program, budget);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

}  // namespace outsize
