#include "program/emit.h"

#include <algorithm>

#include "program/emit_pass.h"

namespace outsize {

Emitter::Emitter(const Graph& graph, const Plan& plan, const LowerOptions& options)
    : graph_(graph),
      plan_(plan),
      options_(options),
      places_(graph.value_count()),
      whole_boxes_(graph.value_count()),
      ran_(graph.op_count()),
      read_later_(values_read_later(graph, plan)) {
  program_.name = graph.name;
  program_.planner = plan.planner;
  for (const auto& [op, choice] : plan.kernels) program_.kernels.emplace(op, choice.name);
  program_.storage = options.storage;
}

PieceId Emitter::new_piece(ValueId value, const char* part, Tier tier, const Box& box) {
  Piece piece;
  piece.value = value;
  piece.part = part;
  piece.tier = tier;
  if (tier == Tier::source)
    piece.offset = 0;
  else
    piece.bytes = stored_bytes(options_.storage, graph_.value(value).type, box.shape());
  program_.pieces.push_back(std::move(piece));
  return PieceId(static_cast<std::int64_t>(program_.pieces.size()) - 1);
}

PieceId Emitter::new_whole_piece(ValueId value, Tier tier) {
  return new_piece(value, "", tier, Box::whole(graph_.value(value).type.shape));
}

BoxId Emitter::whole_box(ValueId value) {
  BoxId& box = whole_boxes_[value];
  if (!box) box = program_.boxes.add(Box::whole(graph_.value(value).type.shape));
  return box;
}

Operand Emitter::whole_operand(PieceId piece, ValueId value) {
  const BoxId whole = whole_box(value);
  return {piece, whole, whole};
}

void Emitter::extend(PieceId id, std::int32_t index) {
  Piece& piece = program_.piece(id);
  piece.first = piece.first < 0 ? index : std::min(piece.first, index);
  piece.last = std::max(piece.last, index);
}

void Emitter::append(Instruction instruction) {
  const std::int32_t index = next_index();
  if (const std::int64_t bytes = workspace_of(instruction); bytes > 0) {
    Piece piece;
    piece.op = instruction.op;
    piece.tier = instruction.lane == Lane::host ? Tier::host : Tier::device;
    piece.bytes = bytes;
    program_.pieces.push_back(std::move(piece));
    instruction.workspace = PieceId(static_cast<std::int64_t>(program_.pieces.size()) - 1);
    extend(instruction.workspace, index);
  }
  for (const Operand& operand : instruction.reads) extend(operand.piece, index);
  for (const Operand& operand : instruction.writes) extend(operand.piece, index);
  program_.instructions.push_back(std::move(instruction));
}

std::int64_t Emitter::workspace_of(const Instruction& instruction) {
  if (instruction.action != Action::kernel || !options_.workspace) return 0;
  if (const std::string_view name = program_.kernel_of(instruction.op); !name.empty() && options_.chosen_workspace)
    return options_.chosen_workspace(call_of(graph_, program_, instruction), name);
  const Op& op = graph_.op(instruction.op);
  const auto whole = [&](std::span<const Operand> operands, const std::vector<ValueId>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (operands[i].box != whole_box(values[i])) return false;
    return true;
  };
  if (options_.whole_workspace && whole(instruction.reads, op.inputs) && whole(instruction.writes, op.outputs))
    return (*options_.whole_workspace)[instruction.op];
  return options_.workspace(call_of(graph_, program_, instruction));
}

bool Emitter::first_run(OpId op) {
  const bool first = !ran_[op];
  ran_[op] = true;
  return first;
}

// Persistent values come first, in graph order, so that every program of a run has them at the same offsets.
void Emitter::place_persistent_and_inputs() {
  for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
    const ValueId id(v);
    const Value& value = graph_.value(id);
    if (value.producer || (!value.persistent() && value.role != Role::input)) continue;
    const Tier tier = plan_.home_of(id);
    const PieceId piece = new_whole_piece(id, tier);
    (tier == Tier::device ? place(id).device : place(id).lower) = piece;
    extend(piece, 0);
    if (value.persistent()) {
      program_.piece(piece).persistent = true;
      program_.persistent.push_back({id, piece});
    } else {
      program_.inputs.push_back({id, piece});
    }
  }
}

void Emitter::run(const RunStep& step) {
  const Op& op = graph_.op(step.op);
  const OpSite site{graph_, op};
  Instruction instruction;
  instruction.op = step.op;
  instruction.recompute = !first_run(step.op);
  instruction.reads.reserve(op.inputs.size());
  instruction.writes.reserve(op.outputs.size());
  for (ValueId input : op.inputs) {
    if (!place(input).device)
      user_error("plan: op {} reads {}, which is not on the device as a whole; run its producer or bring it in before", op.name,
                 graph_.value(input).name);
    instruction.reads.push_back(whole_operand(place(input).device, input));
  }
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const ValueId output = op.outputs[o];
    if (plan_.home_of(output) != Tier::device)
      user_error("plan: {} is streamed, so op {} can make it only inside a pass", graph_.value(output).name, op.name);
    PieceId piece;
    for (const InPlacePair& update : op.updates)
      if (update.output == static_cast<int>(o)) piece = place(op.inputs[update.input]).device;
    if (!piece) piece = new_whole_piece(output, Tier::device);
    place(output).device = piece;
    instruction.writes.push_back(whole_operand(piece, output));
  }
  if (op.def->has_owned_terms(site)) instruction.owned = instruction.reads[op.def->push_driver(site)].box;
  append(std::move(instruction));
}

// An update of values that live in a lower tier, by the host: what has no address passes through host memory.
void Emitter::run_on_host(const RunStep& step) {
  const Op& op = graph_.op(step.op);
  Instruction instruction;
  instruction.op = step.op;
  instruction.lane = Lane::host;
  instruction.recompute = !first_run(step.op);
  for (ValueId input : op.inputs) {
    const Operand lower = whole_operand(place(input).lower, input);
    const bool staged = !in_memory(program_.piece(lower.piece).tier);
    instruction.reads.push_back(staged ? staging_for(input, lower) : lower);
    if (staged) append({.action = Action::disk_in, .lane = Lane::disk_in, .reads = {lower}, .writes = {instruction.reads.back()}});
  }
  std::vector<std::pair<Operand, Operand>> to_disk;
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const ValueId output = op.outputs[o];
    Operand made;
    for (const InPlacePair& update : op.updates) {
      if (update.output != static_cast<int>(o)) continue;
      made = instruction.reads[update.input];
      place(output).lower = place(op.inputs[update.input]).lower;
      if (made.piece != place(output).lower) to_disk.emplace_back(made, whole_operand(place(output).lower, output));
    }
    if (!made.piece) {
      place(output).lower = new_whole_piece(output, Tier::host);
      made = whole_operand(place(output).lower, output);
    }
    instruction.writes.push_back(made);
  }
  append(std::move(instruction));
  for (const auto& [host, disk] : to_disk)
    append({.action = Action::disk_out, .lane = Lane::disk_out, .reads = {host}, .writes = {disk}});
}

Operand Emitter::staging_for(ValueId value, const Operand& like) {
  const PieceId piece = new_piece(value, " staging", Tier::host, program_.boxes[like.box].start);
  return {piece, like.box, like.box};
}

void Emitter::store_lower(ValueId value, const Operand& from, const Operand& to) {
  const bool disk = program_.piece(to.piece).tier == Tier::disk;
  if (disk && options_.direct_disk)
    return append({.action = Action::disk_out, .lane = Lane::disk_out, .reads = {from}, .writes = {to}});
  const Operand host = disk ? staging_for(value, from) : to;
  append({.action = Action::copy_out, .lane = Lane::copy_out, .reads = {from}, .writes = {host}});
  if (disk) append({.action = Action::disk_out, .lane = Lane::disk_out, .reads = {host}, .writes = {to}});
}

void Emitter::load_lower(ValueId value, const Operand& from, const Operand& to) {
  const Tier tier = program_.piece(from.piece).tier;
  if ((tier == Tier::source && options_.direct_sources) || (tier == Tier::disk && options_.direct_disk))
    return append({.action = Action::disk_in, .lane = Lane::disk_in, .reads = {from}, .writes = {to}});
  const bool staged = !in_memory(tier);
  const Operand host = staged ? staging_for(value, to) : from;
  if (staged) append({.action = Action::disk_in, .lane = Lane::disk_in, .reads = {from}, .writes = {host}});
  append({.action = Action::copy_in, .lane = Lane::copy_in, .reads = {host}, .writes = {to}});
}

void Emitter::out(const OutStep& step) {
  if (!place(step.value).device) user_error("plan: out {}: it is not on the device there", graph_.value(step.value).name);
  // A new version of a persistent value takes the old one's place in its home.
  const ValueId old = graph_.value(step.value).version_of;
  const bool home = old && plan_.home_of(old) != Tier::device;
  const PieceId lower = home ? place(old).lower : new_whole_piece(step.value, step.tier);
  place(step.value).lower = lower;
  store_lower(step.value, whole_operand(place(step.value).device, step.value), whole_operand(lower, step.value));
}

void Emitter::in(const InStep& step) {
  if (!place(step.value).lower) user_error("plan: in {}: no `out` has put it into a lower tier", graph_.value(step.value).name);
  const PieceId device = new_whole_piece(step.value, Tier::device);
  place(step.value).device = device;
  load_lower(step.value, whole_operand(place(step.value).lower, step.value), whole_operand(device, step.value));
}

void Emitter::drop(const DropStep& step) {
  PieceId& device = place(step.value).device;
  if (!device) user_error("plan: drop {}: it is not on the device there", graph_.value(step.value).name);
  extend(device, std::max(0, next_index() - 1));
  device = {};
}

void Emitter::finish() {
  const std::int32_t end = std::max(0, next_index() - 1);
  for (ValueId output : graph_.outputs()) {
    const Place at = place(output);
    const PieceId piece = at.device ? at.device : at.lower;
    if (!piece) user_error("plan: the graph's output {} is nowhere at the end", graph_.value(output).name);
    program_.outputs.push_back({output, piece});
    extend(piece, end);
  }
  for (const Binding& binding : program_.persistent) extend(binding.piece, end);
  // A piece that lives outside a loop and is touched inside it lives through the whole loop.
  for (const Loop& loop : program_.loops) {
    for (std::int32_t i = loop.begin; i < loop.end; ++i) {
      const Instruction& instruction = program_.instructions[i];
      const auto through = [&](const Operand& operand) {
        Piece& piece = program_.piece(operand.piece);
        if (piece.first >= loop.begin && piece.last < loop.end) return;
        piece.first = std::min(piece.first, loop.begin);
        piece.last = std::max(piece.last, loop.end - 1);
      };
      for (const Operand& operand : instruction.reads) through(operand);
      for (const Operand& operand : instruction.writes) through(operand);
    }
  }
}

Program Emitter::emit() {
  program_.instructions.reserve(plan_.steps.size());
  program_.pieces.reserve(plan_.steps.size());
  place_persistent_and_inputs();
  for (const Step& step : plan_.steps) {
    if (const auto* r = std::get_if<RunStep>(&step)) r->where == Tier::host ? run_on_host(*r) : run(*r);
    if (const auto* o = std::get_if<OutStep>(&step)) out(*o);
    if (const auto* i = std::get_if<InStep>(&step)) in(*i);
    if (const auto* d = std::get_if<DropStep>(&step)) drop(*d);
    if (const auto* p = std::get_if<PassStep>(&step)) PassEmitter(*this, p->pass).emit();
    if (options_.observe) options_.observe("step", program_);
  }
  finish();
  return std::move(program_);
}

}  // namespace outsize
