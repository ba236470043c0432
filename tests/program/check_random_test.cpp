// The checker against a definition of what it checks: byte by byte, pair by pair, with no clock and no interval.
#include <gtest/gtest.h>

#include <random>

#include "hand_program.h"
#include "program/check.h"
#include "program/offsets.h"

namespace outsize {
namespace {

constexpr std::int64_t kRowBytes = 256;
constexpr int kRows = 3;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

// Which instruction surely completes before which: the closure of lane order and waits.
std::vector<std::vector<bool>> happens_before(const Program& program) {
  const std::size_t n = program.instructions.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  const auto follow = [&](std::size_t later, std::size_t earlier) {
    before[earlier][later] = true;
    for (std::size_t k = 0; k < n; ++k)
      if (before[k][earlier]) before[k][later] = true;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const Instruction& instruction = program.instructions[i];
    std::int64_t seen[kLanes] = {};
    for (std::size_t k = 0; k < i; ++k) {
      const Lane lane = program.instructions[k].lane;
      const std::int64_t ordinal = ++seen[static_cast<int>(lane)];
      bool waited = lane == instruction.lane;
      for (const Wait& wait : instruction.waits) waited |= wait.lane == lane && ordinal <= wait.count;
      if (waited) follow(i, k);
    }
  }
  return before;
}

struct Touch {
  std::int64_t begin, end;
  bool write;
};

std::vector<Touch> touches(const Program& program, const Instruction& instruction) {
  std::vector<Touch> all;
  const auto add = [&](const Operand& operand, bool write) {
    const std::int64_t offset = program.piece(operand.piece).offset;
    const Box& box = program.boxes[operand.box].start;
    all.push_back({offset + box.lo[0] * kRowBytes, offset + box.hi[0] * kRowBytes, write});
  };
  for (const Operand& read : instruction.reads) add(read, false);
  for (const Operand& write : instruction.writes) add(write, true);
  return all;
}

// No two accesses to a byte, one a write, are unordered; and every byte read was last written, in issue order, by the same piece.
bool is_right(const Program& program) {
  const auto before = happens_before(program);
  const std::size_t n = program.instructions.size();
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = 0; i < j; ++i)
      for (const Touch& a : touches(program, program.instructions[i]))
        for (const Touch& b : touches(program, program.instructions[j]))
          if ((a.write || b.write) && a.begin < b.end && b.begin < a.end && !before[i][j]) return false;
  std::vector<int> owner(static_cast<std::size_t>(program.peak_bytes.device / kRowBytes) + 1, -1);
  const auto rows_of = [&](const Operand& operand, auto visit) {
    const std::int64_t first = program.piece(operand.piece).offset / kRowBytes;
    const Box& box = program.boxes[operand.box].start;
    for (std::int64_t r = box.lo[0]; r < box.hi[0]; ++r) visit(owner[static_cast<std::size_t>(first + r)]);
  };
  for (const Instruction& instruction : program.instructions) {
    bool right = true;
    for (const Operand& read : instruction.reads) rows_of(read, [&](int& at) { right &= at == read.piece.index; });
    if (!right) return false;
    for (const Operand& write : instruction.writes) rows_of(write, [&](int& at) { at = write.piece.index; });
  }
  return true;
}

// Copies and zero-fills over pieces of one to three rows on all lanes, packed tightly, with the waits that every shared byte asks
// for; then, half of the time, some waits are weakened.
Program make(Random& random, const Graph& graph, bool in_parts) {
  HandProgram hand(graph);
  const int lanes = 2 + random.below(kLanes - 1);
  const int instructions = 4 + random.below(30);
  std::vector<PieceId> live;
  const auto extent = [&](PieceId id) { return hand.program.piece(id).bytes / kRowBytes; };
  for (int i = 0; i < instructions; ++i) {
    const Lane lane = static_cast<Lane>(random.below(lanes));
    const auto operand = [&](PieceId id, Box box) { return hand.program.operand(id, rows(0, extent(id), 64), box); };
    if (live.empty() || random.one_in(3)) {
      const PieceId made = hand.device("v", 0, {1 + random.below(kRows), 64});
      live.push_back(made);
      hand.on(lane, Action::zero, {}, {operand(made, rows(0, extent(made), 64))});
      continue;
    }
    const PieceId from = live[static_cast<std::size_t>(random.below(static_cast<int>(live.size())))];
    PieceId to = live[static_cast<std::size_t>(random.below(static_cast<int>(live.size())))];
    if (to == from || extent(to) != extent(from) || random.one_in(2)) {
      to = hand.device("v", 0, {extent(from), 64});
      live.push_back(to);
    }
    Box box = rows(0, extent(from), 64);
    if (in_parts && random.one_in(2)) {
      box.lo[0] = random.below(static_cast<int>(extent(from)));
      box.hi[0] = box.lo[0] + 1 + random.below(static_cast<int>(extent(from) - box.lo[0]));
    }
    hand.on(lane, Action::copy, {operand(from, box)}, {operand(to, box)});
    while (live.size() > 4) live.erase(live.begin() + random.below(static_cast<int>(live.size())));
  }
  std::vector<Lifetime> lives;
  for (const Piece& piece : hand.program.pieces) lives.push_back({piece.bytes, piece.first, piece.last});
  const Packing packing = pack(lives);
  for (std::size_t p = 0; p < lives.size(); ++p) hand.program.pieces[p].offset = packing.offsets[p];

  Program& program = hand.finish();
  std::vector<std::int64_t> ordinals;  // of each instruction on its lane, from 1
  std::int64_t issued[kLanes] = {};
  for (std::size_t j = 0; j < program.instructions.size(); ++j) {
    Instruction& later = program.instructions[j];
    ordinals.push_back(++issued[static_cast<int>(later.lane)]);
    std::int64_t need[kLanes] = {};
    const auto overlap = [&](const Operand& a, const Operand& b) {
      const Piece &p = program.piece(a.piece), &q = program.piece(b.piece);
      return p.offset < q.offset + q.bytes && q.offset < p.offset + p.bytes;
    };
    for (std::size_t i = 0; i < j; ++i) {
      const Instruction& earlier = program.instructions[i];
      bool depends = false;
      for (const Operand& w : earlier.writes) {
        for (const Operand& r : later.reads) depends |= overlap(w, r);
        for (const Operand& v : later.writes) depends |= overlap(w, v);
      }
      for (const Operand& r : earlier.reads)
        for (const Operand& w : later.writes) depends |= overlap(r, w);
      if (depends && earlier.lane != later.lane) need[static_cast<int>(earlier.lane)] = ordinals[i];
    }
    for (int lane = 0; lane < kLanes; ++lane)
      if (need[lane] > 0) later.waits.push_back({static_cast<Lane>(lane), need[lane]});
  }
  if (random.one_in(2))
    for (Instruction& instruction : program.instructions)
      for (Wait& wait : instruction.waits)
        if (random.one_in(8)) wait.count -= 1 + random.below(2);
  return program;
}

bool accepts(const Graph& graph, const Program& program) {
  try {
    check_program(graph, program);
  } catch (const InternalError&) {
    return false;
  }
  return true;
}

TEST(CheckProgram, AgreesWithItsDefinition) {
  const Graph graph = graph_of("graph random\ninput v f32[3, 64]\na: y = relu(v)\noutput y\n");
  Random random(11);
  int right = 0, wrong = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const Program program = make(random, graph, false);
    const bool expected = is_right(program);
    ++(expected ? right : wrong);
    ASSERT_EQ(accepts(graph, program), expected) << print_program(graph, program);
  }
  EXPECT_GT(right, 400);
  EXPECT_GT(wrong, 400);
}

// With parts, pieces that share only bytes that no part touches may be refused, but nothing wrong may pass.
TEST(CheckProgram, AcceptsNothingWrongInParts) {
  const Graph graph = graph_of("graph random\ninput v f32[3, 64]\na: y = relu(v)\noutput y\n");
  Random random(12);
  int accepted = 0, refused = 0, strict = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const Program program = make(random, graph, true);
    const bool right = is_right(program);
    const bool said = accepts(graph, program);
    ASSERT_TRUE(right || !said) << print_program(graph, program);
    ++(said ? accepted : refused);
    if (right && !said) ++strict;
  }
  EXPECT_GT(accepted, 400);
  EXPECT_GT(refused, 400);
  EXPECT_LT(strict, accepted / 4);
}

}  // namespace
}  // namespace outsize
