#pragma once

#include <deque>
#include <vector>

#include "program/program.h"
#include "run/memory.h"

namespace outsize {

// Finds what was changed in host memory or on disk behind the program's back: whatever is put there is summed, and compared when it
// is used. A piece's grains are the longest ranges that no access of it cuts, so that what one lane compares no other lane writes.
class SpillCheck {
 public:
  SpillCheck(const Graph& graph, const Program& program, Memory& memory);

  // Tell of an access beforehand: of an instruction that moves as `plan` says, and of the range that a kernel takes. begin() ends
  // it.
  void expect(const Instruction& instruction, const CopyPlan& plan);
  void expect(PieceId piece, std::int64_t offset, std::int64_t bytes);
  // What persistent values are now is what they should be, unless another program of the run knows better.
  void begin();

  // Around an instruction that moves; `from` and `to` are the memory of its pieces, nullptr on disk. They throw InternalError
  // naming a value that is not what it was, and allocate nothing else.
  void before(const Instruction& instruction, const CopyPlan& plan, const std::byte* from, const std::byte* to) const;
  void after(const Instruction& instruction, const CopyPlan& plan, const std::byte* from, const std::byte* to);

  // The same of the ranges of kernels, and of parts of pieces that are written or read outside a step, in order; nothing for pieces
  // on the device. `running` goes from part to part of a piece.
  void note(PieceId piece, std::int64_t offset, std::span<const std::byte> data);
  void verify(PieceId piece, std::int64_t offset, std::span<const std::byte> data, std::uint32_t& running) const;

 private:
  enum class Side { from, to };

  void cut(PieceId piece, const CopyPlan& plan, Side side);
  // What a plan moves of a piece on one side, seen in memory on the same side or the other.
  void note(PieceId piece, const CopyPlan& plan, Side side, const std::byte* memory, Side seen);
  void verify(PieceId piece, const CopyPlan& plan, Side side, const std::byte* memory, Side seen) const;

  const Graph& graph_;
  const Program& program_;
  Memory& memory_;
  std::vector<std::int64_t> grains_;  // by piece; 0: not looked at
  std::vector<Checksums*> sums_;      // by piece; nullptr: not looked at
  std::deque<Checksums> own_;         // of what does not outlive a step
};

}  // namespace outsize
