#pragma once

#include <span>
#include <vector>

#include "program/schedule.h"
#include "run/arena.h"

namespace outsize {

// Finds uses of memory that the program did not declare: what a piece leaves behind is filled with NaNs, and the bytes around every
// piece (the program was lowered so that they belong to nobody) must keep their pattern. Its moments are those of the issue order.
class DebugMemory {
 public:
  // Arenas by tier, nullptr where there is none.
  DebugMemory(const Graph& graph, const Program& program, const Schedule& schedule, std::span<Arena* const> arenas,
              std::int64_t canary_bytes);

  void begin_step();
  void before(std::int32_t instruction);
  // Throws InternalError naming op and piece when a written piece's surroundings were written. `last_iteration`: of its loop; true
  // outside loops.
  void after(std::int32_t instruction, bool last_iteration);

 private:
  Arena* arena_of(const Piece& piece) const { return arenas_[static_cast<std::size_t>(piece.tier)]; }
  // The piece whose bytes this one took over first.
  PieceId root_of(PieceId piece) const;
  void place_canaries(PieceId piece);
  void check_canaries(PieceId piece, std::int32_t instruction) const;
  void poison(PieceId piece);

  const Graph& graph_;
  const Program& program_;
  std::vector<Arena*> arenas_;
  std::int64_t canary_bytes_;
  std::vector<PieceId> standing_;                     // hold something before the first instruction
  std::vector<std::vector<PieceId>> begins_;          // by instruction
  std::vector<std::vector<PieceId>> ends_;            // after every run of the instruction
  std::vector<std::vector<PieceId>> ends_with_loop_;  // after its run in the last iteration
};

}  // namespace outsize
