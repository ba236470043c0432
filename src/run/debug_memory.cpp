#include "run/debug_memory.h"

#include "base/id_vector.h"

namespace outsize {

DebugMemory::DebugMemory(const Graph& graph, const Program& program, const Schedule& schedule, std::span<Arena* const> arenas,
                         std::int64_t canary_bytes)
    : graph_(graph),
      program_(program),
      arenas_(arenas.begin(), arenas.end()),
      canary_bytes_(canary_bytes),
      begins_(program.instructions.size()),
      ends_(program.instructions.size()),
      ends_with_loop_(program.instructions.size()) {
  const auto pieces = std::ssize(program.pieces);
  IdVector<PieceId, bool> stands(pieces), stays(pieces), taken_over(pieces);
  for (const Binding& binding : program.inputs) stands[binding.piece] = true;
  for (const Binding& binding : program.outputs) stays[binding.piece] = true;
  for (const Binding& binding : program.persistent) {
    stands[binding.piece] = true;
    stays[binding.piece] = true;
  }
  for (const Piece& piece : program.pieces)
    if (piece.shares) taken_over[piece.shares] = true;

  for (std::int64_t i = 0; i < pieces; ++i) {
    const PieceId id(i);
    const Piece& piece = program.piece(id);
    if (arena_of(piece) == nullptr) continue;
    if (stands[id] || piece.persistent)
      standing_.push_back(id);
    else if (!piece.shares && piece.first >= 0)
      begins_[piece.first].push_back(id);

    bool keeps = taken_over[id];
    for (PieceId ancestor = id; ancestor; ancestor = program.piece(ancestor).shares)
      keeps = keeps || program.piece(ancestor).persistent || stays[ancestor];
    if (keeps || piece.last < 0) continue;
    const std::int32_t loop = schedule.loop[piece.last];
    const bool enters_loop = loop >= 0 && (stands[id] || piece.first < program.loops[loop].begin);
    // What was there before the loop is needed by every iteration.
    if (enters_loop)
      ends_with_loop_[program.loops[loop].end - 1].push_back(id);
    else
      ends_[piece.last].push_back(id);
  }
}

void DebugMemory::begin_step() {
  for (PieceId piece : standing_) place_canaries(piece);
}

void DebugMemory::before(std::int32_t instruction) {
  for (PieceId piece : begins_[instruction]) place_canaries(piece);
}

void DebugMemory::after(std::int32_t instruction, bool last_iteration) {
  for (const Operand& operand : program_.instructions[instruction].writes) check_canaries(operand.piece, instruction);
  if (program_.instructions[instruction].workspace) check_canaries(program_.instructions[instruction].workspace, instruction);
  for (PieceId piece : ends_[instruction]) poison(piece);
  if (last_iteration)
    for (PieceId piece : ends_with_loop_[instruction]) poison(piece);
}

PieceId DebugMemory::root_of(PieceId piece) const {
  while (program_.piece(piece).shares) piece = program_.piece(piece).shares;
  return piece;
}

void DebugMemory::place_canaries(PieceId id) {
  const Piece& piece = program_.piece(id);
  const std::int64_t end = piece.offset + piece.bytes;
  arena_of(piece)->restore_pattern(piece.offset - canary_bytes_, piece.offset);
  arena_of(piece)->restore_pattern(end, end + canary_bytes_);
}

void DebugMemory::check_canaries(PieceId written, std::int32_t instruction) const {
  const Piece& piece = program_.piece(root_of(written));
  const Arena* const arena = arena_of(piece);
  if (arena == nullptr) return;
  const auto fail = [&](std::int64_t distance, std::string_view where) {
    internal_error("{} wrote outside piece '{}' ({} bytes at {} of the {} arena): byte {} {} it was changed",
                   describe(graph_, program_, instruction), label_of(graph_, program_.piece(written)), piece.bytes, piece.offset,
                   name_of(piece.tier), distance, where);
  };
  const std::int64_t end = piece.offset + piece.bytes;
  if (const std::int64_t touched = arena->first_touched(end, end + canary_bytes_); touched >= 0) fail(touched - end + 1, "after");
  if (const std::int64_t touched = arena->first_touched(piece.offset - canary_bytes_, piece.offset); touched >= 0)
    fail(piece.offset - touched, "before");
}

void DebugMemory::poison(PieceId id) {
  const Piece& piece = program_.piece(id);
  arena_of(piece)->fill(piece.offset, piece.bytes, std::byte{0xFF});
}

}  // namespace outsize
