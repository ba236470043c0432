#include "program/lower.h"

#include <algorithm>
#include <optional>

#include "base/alignment.h"
#include "base/bytes.h"
#include "base/id_vector.h"
#include "graph/in_place.h"
#include "program/check.h"
#include "program/emit.h"
#include "program/offsets.h"
#include "program/waits.h"

namespace outsize {

namespace {

PieceId root_of(const Program& program, PieceId id) {
  while (program.piece(id).shares) id = program.piece(id).shares;
  return id;
}

// Lets an output take over the bytes of an input that is used here for the last time, where the op allows it.
void share_in_place(const Graph& graph, Program& program) {
  IdVector<PieceId, bool> bound(std::ssize(program.pieces));
  for (const Binding& binding : program.inputs) bound[binding.piece] = true;
  std::size_t loop = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    while (loop < program.loops.size() && program.loops[loop].end <= static_cast<std::int32_t>(i)) ++loop;
    const bool looping = loop < program.loops.size() && program.loops[loop].begin <= static_cast<std::int32_t>(i);
    if (instruction.action != Action::kernel) continue;
    if (std::ranges::all_of(instruction.writes, [&](const Operand& write) { return program.piece(write.piece).persistent; }))
      continue;
    const auto from = [&](const InPlacePair& pair) -> const Operand& { return instruction.reads[pair.input]; };
    const auto to = [&](const InPlacePair& pair) -> const Operand& { return instruction.writes[pair.output]; };
    const auto may = [&](const InPlacePair& pair) {
      const Operand &read = from(pair), &write = to(pair);
      const Piece &source = program.piece(read.piece), &target = program.piece(write.piece);
      const bool ends_here = source.last == static_cast<std::int32_t>(i) && target.first == static_cast<std::int32_t>(i);
      const bool next_iteration_reads = looping && source.first < program.loops[loop].begin;
      const bool fits =
          read.holds == write.holds && read.box == read.holds && write.box == write.holds && source.bytes == target.bytes;
      return ends_here && fits && !next_iteration_reads && !source.persistent && !target.persistent && !target.shares &&
             !bound[read.piece];
    };
    for (const InPlacePair& pair : in_place_pairs({graph, graph.op(instruction.op)}, may))  // updates: those of windows
      program.piece(to(pair).piece).shares = from(pair).piece;
  }
}

// Why a budget cannot be met: the instruction with the largest sum of live bytes.
std::string at_the_peak(const Graph& graph, const Program& program, std::span<const Lifetime> lifetimes) {
  std::vector<std::int64_t> change(program.instructions.size() + 1, 0);
  for (const Lifetime& life : lifetimes) {
    change[life.first] += life.bytes;
    change[life.last + 1] -= life.bytes;
  }
  std::int64_t live = 0, most = -1;
  std::size_t peak = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    live += change[i];
    if (live > most) {
      most = live;
      peak = i;
    }
  }
  if (program.instructions.empty()) return "no instruction";
  const Instruction& instruction = program.instructions[peak];
  return instruction.op
             ? "op " + graph.op(instruction.op).name
             : std::string(name_of(instruction.action)) + " of " + label_of(graph, program.piece(instruction.writes[0].piece));
}

// The offset that a run gives to a persistent piece of one of its later programs.
std::int64_t place_in(const PersistentLayout& layout, const Graph& graph, const Program& program, const Piece& piece) {
  const auto found = layout.places.find(graph.value(piece.value).name);
  if (found == layout.places.end() || found->second.tier != piece.tier || found->second.bytes != piece.bytes)
    internal_error("program {} holds '{}' ({} bytes, {}), which the run's layout does not have so", program.name,
                   label_of(graph, piece), piece.bytes, name_of(piece.tier));
  return found->second.offset;
}

// Interval packing, tier by tier; persistent pieces first, at offsets that no plan changes. Nothing where that is within the
// budgets.
std::optional<Refusal> assign_offsets(const Graph& graph, Program& program, const LowerOptions& options) {
  const std::int64_t margin = options.canary_bytes == 0 ? 0 : align_up(options.canary_bytes, kAlignment);
  IdVector<PieceId, std::int32_t> last(std::ssize(program.pieces));  // of the whole in-place chain, at its root
  for (std::int64_t p = last.size(); p-- > 0;) {
    const PieceId id(p);
    last[id] = std::max(last[id], program.piece(id).last);
    if (const PieceId parent = program.piece(id).shares) last[parent] = std::max(last[parent], last[id]);
  }
  for (const Tier tier : kTiers) {
    const std::int64_t budget = options.budgets[tier];
    std::int64_t base = 0;
    std::vector<Lifetime> lives;
    std::vector<std::size_t> owners;
    for (std::size_t p = 0; p < program.pieces.size(); ++p) {
      Piece& piece = program.pieces[p];
      if (piece.tier != tier || piece.shares || piece.first < 0) continue;
      if (piece.persistent) {
        piece.offset = options.layout ? place_in(*options.layout, graph, program, piece) : base + margin;
        base = std::max(base, align_up(piece.offset + piece.bytes, kAlignment) + margin);
        continue;
      }
      // An empty box takes no bytes, nor canaries of its own: it lies at those before the first piece.
      if (piece.bytes == 0) {
        piece.offset = 0;
        continue;
      }
      lives.push_back({piece.bytes + 2 * margin, piece.first, last[PieceId(static_cast<std::int64_t>(p))]});
      owners.push_back(p);
    }
    if (options.layout) base = std::max(base, options.layout->end[tier]);
    program.persistent_end[tier] = base;
    const std::int64_t room = budget - base, live = largest_live_sum(lives);
    const Packing packing =
        pack(lives, options.lowest || budget >= kNoLimit ? 0 : room, live <= room ? options.effort : Effort::quick);
    std::int64_t& peak = program.peak_bytes[tier];
    for (std::size_t k = 0; k < owners.size(); ++k) program.pieces[owners[k]].offset = base + packing.offsets[k] + margin;
    for (std::size_t p = 0; p < program.pieces.size(); ++p) {
      Piece& piece = program.pieces[p];
      if (piece.tier != tier || piece.first < 0) continue;
      if (piece.shares) piece.offset = program.piece(root_of(program, PieceId(static_cast<std::int64_t>(p)))).offset;
      peak = std::max(peak, piece.offset + piece.bytes);
    }
    if (tier == Tier::device) program.live_bytes = base + live;
    if (peak > budget)
      return Refusal{.planner = program.planner,
                     .program = program.name,
                     .tier = tier,
                     .budget = budget,
                     .needed = peak,
                     .at = at_the_peak(graph, program, lives),
                     .disk = options.budgets.disk > 0};
  }
  return std::nullopt;
}

}  // namespace

PersistentLayout layout_of(const Graph& graph, const Program& program) {
  PersistentLayout layout;
  for (const Binding& binding : program.persistent) {
    const Piece& piece = program.piece(binding.piece);
    if (piece.offset >= 0) layout.places[graph.value(binding.value).name] = {piece.tier, piece.offset, piece.bytes};
  }
  layout.end = program.persistent_end;
  return layout;
}

Planned<Program> lower(const Graph& graph, const Plan& plan, const LowerOptions& options) {
  const auto observe = [&](std::string_view phase, const Program& program) {
    if (options.observe) options.observe(phase, program);
  };
  check_plan(graph, plan);

  Program program = Emitter(graph, plan, options).emit();
  observe("instructions", program);

  share_in_place(graph, program);
  observe("in place", program);

  std::optional<Refusal> refusal = assign_offsets(graph, program, options);
  observe("offsets", program);
  if (refusal) return *std::move(refusal);

  derive_waits(program);
  observe("waits", program);

  check_program(graph, program, options.budgets.device);
  return program;
}

}  // namespace outsize
