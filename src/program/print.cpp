#include <algorithm>

#include "program/program.h"

namespace outsize {
namespace {

std::string print_box(const MovingBox& box) {
  return box.moves() ? fmt::format("{}+i*{}", to_string(box.start), to_string(box.step)) : to_string(box.start);
}

// "host:" for the lower tiers; the device goes without saying.
std::string place_of(const Graph& graph, const Piece& piece) {
  return fmt::format("{}{}@{}+{}", piece.tier == Tier::device ? "" : fmt::format("{}:", name_of(piece.tier)),
                     label_of(graph, piece), piece.offset, piece.bytes);
}

// "y@0+512 [0:2, 0:1] of [0:2, 0:3]"; the box is left out where it is the whole value, what the piece holds where it is the box.
std::string print_operand(const Graph& graph, const Program& program, const Operand& operand) {
  const Piece& piece = program.piece(operand.piece);
  std::string text = place_of(graph, piece);
  const MovingBox& box = program.boxes[operand.box];
  const bool all = operand.box == operand.holds;
  if (all && box == MovingBox(Box::whole(type_of(graph, piece).shape))) return text;
  text += fmt::format(" {}", print_box(box));
  if (!all) text += fmt::format(" of {}", print_box(program.boxes[operand.holds]));
  return text;
}

std::string print_operands(const Graph& graph, const Program& program, std::span<const Operand> operands) {
  std::string text;
  for (const Operand& operand : operands) text += (text.empty() ? "" : ", ") + print_operand(graph, program, operand);
  return text;
}

// "kernel conv1", "kernel conv1 again", "combine sum", "copy_in"
std::string print_action(const Graph& graph, const Instruction& instruction) {
  std::string text(name_of(instruction.action));
  if (instruction.op) text += " " + graph.op(instruction.op).name;
  if (instruction.recompute) text += " again";
  if (instruction.action == Action::combine) text += instruction.combine == Combine::welford ? " welford" : " sum";
  return text;
}

// "  wait copy_in>=3, compute>=5+2i"
std::string print_waits(const Instruction& instruction) {
  std::string text;
  for (const Wait& wait : instruction.waits) {
    text += fmt::format("{}{}>={}", text.empty() ? "  wait " : ", ", name_of(wait.lane), wait.count);
    if (wait.per_iteration != 0) text += fmt::format("{:+}i", wait.per_iteration);
  }
  return text;
}

std::string print_bindings(const Graph& graph, const Program& program) {
  struct Kind {
    std::string_view name;
    const std::vector<Binding>& bindings;
  };
  const Kind kinds[] = {{"input", program.inputs}, {"persistent", program.persistent}, {"output", program.outputs}};
  std::size_t width = 0;
  for (const Kind& kind : kinds)
    for (const Binding& binding : kind.bindings) width = std::max(width, graph.value(binding.value).name.size());
  std::string text;
  for (const Kind& kind : kinds)
    for (const Binding& binding : kind.bindings)
      text += fmt::format("{:<10}  {:<{}}  {}\n", kind.name, graph.value(binding.value).name, width,
                          place_of(graph, program.piece(binding.piece)));
  return text;
}

}  // namespace

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::copy_out: return "copy_out";
    case Lane::copy_in: return "copy_in";
    case Lane::disk_out: return "disk_out";
    case Lane::disk_in: return "disk_in";
    case Lane::host: return "host";
  }
  return "?";
}

std::string_view name_of(Action action) {
  switch (action) {
    case Action::kernel: return "kernel";
    case Action::copy: return "copy";
    case Action::combine: return "combine";
    case Action::zero: return "zero";
    case Action::copy_out: return "copy_out";
    case Action::copy_in: return "copy_in";
    case Action::disk_out: return "disk_out";
    case Action::disk_in: return "disk_in";
  }
  return "?";
}

Call call_of(const Graph& graph, const Program& program, const Instruction& instruction, std::int64_t iteration) {
  const auto in_iteration = [&](BoxId box) { return program.boxes[box].at(iteration); };
  Call call{{graph, graph.op(instruction.op)}, {}, instruction.owned ? in_iteration(instruction.owned) : Box{}};
  call.boxes.in.reserve(instruction.reads.size());
  call.boxes.out.reserve(instruction.writes.size());
  for (const Operand& read : instruction.reads) call.boxes.in.push_back(in_iteration(read.box));
  for (const Operand& write : instruction.writes) call.boxes.out.push_back(in_iteration(write.box));
  return call;
}

std::string label_of(const Graph& graph, const Piece& piece) {
  if (piece.value) return graph.value(piece.value).name + piece.part;
  return piece.op ? "workspace of " + graph.op(piece.op).name : "workspace";
}

std::string print_program(const Graph& graph, const Program& program) {
  std::string text = fmt::format("program {} by {}: {} instructions, {} pieces\n", program.name, program.planner,
                                 program.instructions.size(), program.pieces.size());
  text += fmt::format("peak device {} (live {}), host {}, disk {}\n", program.peak_bytes.device, program.live_bytes,
                      program.peak_bytes.host, program.peak_bytes.disk);
  text += print_bindings(graph, program);

  constexpr std::size_t kWidest = 40;  // a longer op name pushes only its own line
  std::size_t width = 0;
  for (const Instruction& instruction : program.instructions) width = std::max(width, print_action(graph, instruction).size());
  width = std::min(width, kWidest);
  const std::size_t digits = std::to_string(program.instructions.size()).size();

  std::size_t loop = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto index = static_cast<std::int32_t>(i);
    const bool has_loop = loop < program.loops.size();
    if (has_loop && program.loops[loop].begin == index) text += fmt::format("loop {} {{\n", program.loops[loop].count);
    const bool looping = has_loop && program.loops[loop].begin <= index;

    text += fmt::format("{}{:>{}}  {:<8}  {:<{}} ", looping ? "  " : "", i, digits, name_of(instruction.lane),
                        print_action(graph, instruction), width);
    if (!instruction.reads.empty()) text += fmt::format(" {}", print_operands(graph, program, instruction.reads));
    text += fmt::format(" -> {}", print_operands(graph, program, instruction.writes));
    if (instruction.workspace) text += fmt::format("  using {}", place_of(graph, program.piece(instruction.workspace)));
    if (instruction.op && !program.kernel_of(instruction.op).empty())
      text += fmt::format("  by {}", program.kernel_of(instruction.op));
    if (instruction.owned) text += fmt::format("  owned {}", print_box(program.boxes[instruction.owned]));
    text += print_waits(instruction) + "\n";

    if (looping && program.loops[loop].end == index + 1) {
      text += "}\n";
      ++loop;
    }
  }
  return text;
}

}  // namespace outsize
