#include "run/spill_check.h"

#include <numeric>

#include "backend/host_memory.h"

namespace outsize {
namespace {

std::size_t at(PieceId piece) { return static_cast<std::size_t>(piece.index); }

// Calls body(offset, data): where in the piece a run of `plan` lies, and the memory that shows it.
template <class Body>
void for_each_range(const CopyPlan& plan, std::int64_t element, bool piece_from, const std::byte* memory, bool memory_from,
                    Body&& body) {
  const auto length = static_cast<std::size_t>(plan.length * element);
  for_each_run(plan, 0, run_count(plan), [&](std::int64_t from, std::int64_t to) {
    body((piece_from ? from : to) * element, std::span(memory + (memory_from ? from : to) * element, length));
  });
}

}  // namespace

SpillCheck::SpillCheck(const Graph& graph, const Program& program, Memory& memory)
    : graph_(graph), program_(program), memory_(memory), grains_(program.pieces.size()), sums_(program.pieces.size()) {
  for (std::size_t i = 0; i < program.pieces.size(); ++i) {
    const Piece& piece = program.pieces[i];
    if (piece.tier != Tier::device && piece.value && piece.offset >= 0) grains_[i] = piece.bytes;
  }
}

void SpillCheck::expect(const Instruction& instruction, const CopyPlan& plan) {
  if (plan.length == 0) return;
  if (!instruction.reads.empty()) cut(instruction.reads[0].piece, plan, Side::from);
  cut(instruction.writes[0].piece, plan, Side::to);
}

void SpillCheck::expect(PieceId piece, std::int64_t offset, std::int64_t bytes) {
  if (std::int64_t& grain = grains_[at(piece)]; grain > 0 && bytes > 0) grain = std::gcd(grain, std::gcd(offset, bytes));
}

void SpillCheck::cut(PieceId piece, const CopyPlan& plan, Side side) {
  std::int64_t& grain = grains_[at(piece)];
  if (grain == 0) return;
  const std::int64_t element = size_of(type_of(graph_, program_.piece(piece)).dtype);
  grain = std::gcd(grain, std::gcd(plan.length, side == Side::from ? plan.from : plan.to) * element);
  for (int loop = 0; loop < CopyPlan::kLoops; ++loop)
    if (plan.count[loop] > 1) grain = std::gcd(grain, (side == Side::from ? plan.from_stride : plan.to_stride)[loop] * element);
}

void SpillCheck::begin() {
  for (std::size_t i = 0; i < grains_.size(); ++i) {
    const PieceId id(static_cast<std::int64_t>(i));
    const Piece& piece = program_.piece(id);
    if (grains_[i] == 0) continue;
    if (!piece.persistent) {
      sums_[i] = &own_.emplace_back(piece.bytes, grains_[i]);
      continue;
    }
    const auto [found, made] = memory_.sums().try_emplace({piece.tier, piece.offset}, piece.bytes, grains_[i]);
    sums_[i] = &found->second;
    if (!made && grains_[i] % found->second.grain() == 0) continue;
    if (!made) {
      std::uint32_t running = 0;
      memory_.read(piece.tier, piece.offset, piece.bytes,
                   [&](std::int64_t offset, std::span<const std::byte> part) { verify(id, offset, part, running); });
      found->second = Checksums(piece.bytes, std::gcd(grains_[i], found->second.grain()));
    }
    memory_.read(piece.tier, piece.offset, piece.bytes,
                 [&](std::int64_t offset, std::span<const std::byte> part) { note(id, offset, part); });
  }
}

void SpillCheck::before(const Instruction& instruction, const CopyPlan& plan, const std::byte* from, const std::byte* to) const {
  if (from) verify(instruction.reads[0].piece, plan, Side::from, from, Side::from);
  if (instruction.action == Action::combine) verify(instruction.reads[1].piece, plan, Side::to, to, Side::to);
}

// What comes from disk is compared once it has arrived; what goes there is summed where it came from.
void SpillCheck::after(const Instruction& instruction, const CopyPlan& plan, const std::byte* from, const std::byte* to) {
  if (instruction.action == Action::disk_in) verify(instruction.reads[0].piece, plan, Side::from, to, Side::to);
  note(instruction.writes[0].piece, plan, Side::to, to ? to : from, to ? Side::to : Side::from);
}

void SpillCheck::note(PieceId piece, std::int64_t offset, std::span<const std::byte> data) {
  if (Checksums* const sums = sums_[at(piece)]) sums->note(offset, data);
}

void SpillCheck::verify(PieceId id, std::int64_t offset, std::span<const std::byte> data, std::uint32_t& running) const {
  const Checksums* const sums = sums_[at(id)];
  if (!sums) return;
  const std::int64_t changed = sums->find_changed(offset, data, running);
  if (changed < 0) return;
  const Piece& piece = program_.piece(id);
  internal_error(
      "value '{}' was changed {} between two uses: the {} bytes from byte {} of its {} are not those that were put there; another "
      "program wrote there, or the hardware fails",
      label_of(graph_, piece), piece.tier == Tier::disk ? "on disk" : "in host memory", sums->grain(), changed, piece.bytes);
}

void SpillCheck::note(PieceId piece, const CopyPlan& plan, Side side, const std::byte* memory, Side seen) {
  if (!sums_[at(piece)]) return;
  for_each_range(plan, size_of(type_of(graph_, program_.piece(piece)).dtype), side == Side::from, memory, seen == Side::from,
                 [&](std::int64_t offset, std::span<const std::byte> data) { note(piece, offset, data); });
}

void SpillCheck::verify(PieceId piece, const CopyPlan& plan, Side side, const std::byte* memory, Side seen) const {
  if (!sums_[at(piece)]) return;
  std::uint32_t running = 0;
  for_each_range(plan, size_of(type_of(graph_, program_.piece(piece)).dtype), side == Side::from, memory, seen == Side::from,
                 [&](std::int64_t offset, std::span<const std::byte> data) { verify(piece, offset, data, running); });
}

}  // namespace outsize
