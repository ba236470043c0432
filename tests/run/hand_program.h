#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "graph/text.h"
#include "ops/registry.h"
#include "program/program.h"
#include "run/executor.h"

namespace outsize {

inline Graph graph_of(std::string_view text) {
  register_ops();
  return parse_graph(text, "test.graph");
}

// A program written by hand. Pieces and instructions are added in issue order; lifetimes follow from their uses.
class HandProgram {
 public:
  explicit HandProgram(const Graph& graph, StorageRule storage = {}) : graph_(graph) {
    program.name = graph.name;
    program.planner = "hand";
    program.storage = storage;
  }

  // A piece for boxes of this value of up to `shape` (default: all of it).
  PieceId piece(std::string_view value_name, Tier tier, std::int64_t offset, Dims shape = {}) {
    const ValueId id = graph_.find_value(value_name);
    const Value& value = graph_.value(id);
    Piece made;
    made.value = id;
    made.tier = tier;
    made.bytes = stored_bytes(program.storage, value.type, shape.rank() == 0 ? value.type.shape : shape);
    made.offset = offset;
    std::int64_t& peak = program.peak_bytes[tier];
    peak = std::max(peak, offset + made.bytes);
    program.pieces.push_back(made);
    return PieceId(static_cast<std::int64_t>(program.pieces.size()) - 1);
  }

  void input(PieceId piece) { program.inputs.push_back({program.piece(piece).value, piece}); }
  void output(PieceId piece) { program.outputs.push_back({program.piece(piece).value, piece}); }
  void persistent(PieceId piece) {
    program.piece(piece).persistent = true;
    program.persistent.push_back({program.piece(piece).value, piece});
  }

  // The whole of the piece's value.
  Operand whole(PieceId piece) {
    const Box box = Box::whole(type_of(graph_, program.piece(piece)).shape);
    return part(piece, box, box);
  }
  Operand part(PieceId piece, const MovingBox& holds, const MovingBox& box) { return program.operand(piece, holds, box); }

  Instruction& kernel(std::string_view op, std::vector<Operand> reads, std::vector<Operand> writes, std::vector<Wait> waits = {}) {
    Instruction& made = add(Action::kernel, Lane::compute, std::move(reads), std::move(writes), std::move(waits));
    made.op = graph_.find_op(op);
    return made;
  }
  // Any action but kernel; its lane follows from it.
  Instruction& move(Action action, std::vector<Operand> reads, std::vector<Operand> writes, std::vector<Wait> waits = {}) {
    Lane lane = Lane::compute;
    if (action == Action::copy_out) lane = Lane::copy_out;
    if (action == Action::copy_in) lane = Lane::copy_in;
    if (action == Action::disk_out) lane = Lane::disk_out;
    if (action == Action::disk_in) lane = Lane::disk_in;
    return add(action, lane, std::move(reads), std::move(writes), std::move(waits));
  }

  Program program;

 private:
  Instruction& add(Action action, Lane lane, std::vector<Operand> reads, std::vector<Operand> writes, std::vector<Wait> waits) {
    const auto index = static_cast<std::int32_t>(program.instructions.size());
    Instruction made;
    made.action = action;
    made.lane = lane;
    made.reads = Few<Operand, 4>(reads);
    made.writes = Few<Operand, 2>(writes);
    made.waits = std::move(waits);
    for (const auto* operands : {&reads, &writes})
      for (const Operand& operand : *operands) {
        Piece& piece = program.piece(operand.piece);
        if (piece.first < 0) piece.first = index;
        piece.last = index;
      }
    return program.instructions.emplace_back(std::move(made));
  }

  const Graph& graph_;
};

// Debugged runs check memory and have canaries of that many bytes.
inline ExecutorOptions traced(bool debug = false, std::int64_t canary_bytes = 0) {
  ExecutorOptions options;
  options.trace = true;
  options.debug_memory = debug;
  options.canary_bytes = canary_bytes;
  return options;
}

template <class T>
void write_values(Executor& executor, const Graph& graph, std::string_view name, const std::vector<T>& values) {
  executor.write(graph.find_value(name), std::as_bytes(std::span(values)));
}

template <class T = float>
std::vector<T> read_values(const Executor& executor, const Graph& graph, std::string_view name) {
  const ValueId id = graph.find_value(name);
  std::vector<T> values(static_cast<std::size_t>(graph.value(id).type.elements()));
  executor.read(id, std::as_writable_bytes(std::span(values)));
  return values;
}

// y = relu(x), w = y + y, z = x + w, where x spends the middle of the step in host memory: its device bytes become w's, and it
// comes back to another place. Device bytes: x, w at 0, y and later x again at 256, z at 512.
inline constexpr std::string_view kSwapGraph = R"(graph swap
input x f32[4]
relu: y = relu(x)
twice: w = add(y, y)
sum: z = add(x, w)
output z
)";

inline HandProgram swap_program(const Graph& graph) {
  HandProgram hand(graph);
  const PieceId x = hand.piece("x", Tier::device, 0);
  const PieceId y = hand.piece("y", Tier::device, 256);
  const PieceId x_host = hand.piece("x", Tier::host, 0);
  const PieceId w = hand.piece("w", Tier::device, 0);
  const PieceId x_again = hand.piece("x", Tier::device, 256);
  const PieceId z = hand.piece("z", Tier::device, 512);
  hand.input(x);
  hand.output(z);
  hand.move(Action::copy_out, {hand.whole(x)}, {hand.whole(x_host)});
  hand.kernel("relu", {hand.whole(x)}, {hand.whole(y)});
  hand.kernel("twice", {hand.whole(y), hand.whole(y)}, {hand.whole(w)}, {{Lane::copy_out, 1, 0}});
  hand.move(Action::copy_in, {hand.whole(x_host)}, {hand.whole(x_again)}, {{Lane::copy_out, 1, 0}, {Lane::compute, 2, 0}});
  hand.kernel("sum", {hand.whole(x_again), hand.whole(w)}, {hand.whole(z)}, {{Lane::copy_in, 1, 0}});
  return hand;
}

}  // namespace outsize
