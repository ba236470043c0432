#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_program.h"

namespace outsize {
namespace {

using testing::HasSubstr;

// relu over 8 rows of 16, two rows a tile, streamed from and to the host. Each window also holds the row before the tile, carried
// from the tile before. Tile 0 comes first, tiles 1 to 3 are a loop: iteration i is tile i+1.
//                                                 lane ordinals
//   0  copy_in   rows 0:2 → window                 copy_in 1
//   1  copy      row 1 → carry                     compute 1
//   2  relu      window → out                      compute 2
//   3  copy_out  out → host rows 0:2               copy_out 1
//   loop 3, i = 0, 1, 2
//   4  copy_in   rows 2+2i:4+2i → window 1+2i:4+2i copy_in 2+i
//   5  copy      carry 1+2i → window               compute 3+3i
//   6  relu      window → out                      compute 4+3i
//   7  copy      row 3+2i → carry                  compute 5+3i
//   8  copy_out  out rows 2+2i:4+2i → host         copy_out 2+i
struct Tiles {
  Graph graph = graph_of("graph tiles\ninput x f32[8, 16]\na: y = relu(x)\noutput y\n");
  HandProgram hand{graph};
  PieceId x = hand.piece("x", Tier::host, 0);
  PieceId y = hand.piece("y", Tier::host, 512);
  PieceId window = hand.device("x", 0, {3, 16});
  PieceId carry = hand.device("x", 256, {1, 16});
  PieceId out = hand.device("y", 512, {3, 16});

  static constexpr Dims kStep{2, 0};
  Operand part(PieceId piece, Box holds, Box box, bool holds_move, bool box_moves) {
    return hand.program.operand(piece, {holds, holds_move ? kStep : Dims{}}, {box, box_moves ? kStep : Dims{}});
  }

  Tiles() {
    const Box all = rows(0, 8, 16);
    hand.input(x);
    const auto once = [&](PieceId piece, Box holds, Box box) { return part(piece, holds, box, false, false); };
    const Box first = rows(0, 2, 16);
    const Box row = rows(1, 2, 16);
    hand.move(Action::copy_in, {once(x, all, first)}, {once(window, first, first)});
    hand.move(Action::copy, {once(window, first, row)}, {once(carry, row, row)}, {{Lane::copy_in, 1}});
    hand.kernel("a", {once(window, first, first)}, {once(out, first, first)});
    hand.move(Action::copy_out, {once(out, first, first)}, {once(y, all, first)}, {{Lane::compute, 2}});

    const Box held = rows(1, 4, 16), fresh = rows(2, 4, 16), last = rows(3, 4, 16);
    hand.move(Action::copy_in, {part(x, all, fresh, false, true)}, {part(window, held, fresh, true, true)},
              {{Lane::compute, 2, 3}});
    hand.move(Action::copy, {part(carry, row, row, true, true)}, {part(window, held, row, true, true)});
    hand.kernel("a", {part(window, held, held, true, true)}, {part(out, held, held, true, true)},
                {{Lane::copy_in, 2, 1}, {Lane::copy_out, 1, 1}});
    hand.move(Action::copy, {part(window, held, last, true, true)}, {part(carry, last, last, true, true)});
    hand.move(Action::copy_out, {part(out, held, fresh, true, true)}, {part(y, all, fresh, false, true)}, {{Lane::compute, 4, 3}});
    hand.loop(4, 3);
    hand.output(y);
    hand.finish();
  }
};

TEST(CheckProgram, LoopWithCarryIsLegal) {
  Tiles tiles;
  EXPECT_EQ(verdict(tiles.graph, tiles.hand.program), "");
}

TEST(CheckProgram, EveryWaitOfTheLoopIsNeeded) {
  const Tiles legal;
  for (std::size_t i = 0; i < legal.hand.program.instructions.size(); ++i)
    for (std::size_t w = 0; w < legal.hand.program.instructions[i].waits.size(); ++w) {
      Program without = legal.hand.program;
      std::vector<Wait>& waits = without.instructions[i].waits;
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_THAT(verdict(legal.graph, without), HasSubstr("nothing makes it wait for")) << "instruction " << i << ", wait " << w;
      // One instruction too few is too few, too; so is one iteration too few.
      Program early = legal.hand.program;
      --early.instructions[i].waits[w].count;
      EXPECT_NE(verdict(legal.graph, early), "") << "instruction " << i << ", wait " << w;
      if (legal.hand.program.instructions[i].waits[w].per_iteration == 0) continue;
      Program still = legal.hand.program;
      still.instructions[i].waits[w].per_iteration = 0;
      EXPECT_THAT(verdict(legal.graph, still), HasSubstr("iteration 1")) << "instruction " << i << ", wait " << w;
    }
}

TEST(CheckProgram, LoopMustCoverItsOutput) {
  Tiles tiles;
  tiles.hand.program.loops[0].count = 2;
  EXPECT_EQ(verdict(tiles.graph, tiles.hand.program),
            "program tiles: the caller reads y [0:8, 0:16], of which 32 elements were never written");
  tiles.hand.program.loops[0].count = 4;
  EXPECT_THAT(verdict(tiles.graph, tiles.hand.program),
              HasSubstr("iteration 3) takes [8:10, 0:16] of x, which holds only [0:8, 0:16]"));
}

TEST(CheckProgram, CarryMustBeTheRowThatTheTileWants) {
  Tiles tiles;
  Operand& given = tiles.hand.program.instructions[7].writes[0];
  Operand& taken = tiles.hand.program.instructions[7].reads[0];
  given.holds = given.box = taken.box = tiles.hand.program.boxes.add({rows(2, 3, 16), Tiles::kStep});
  EXPECT_THAT(verdict(tiles.graph, tiles.hand.program),
              HasSubstr("iteration 1) reads x as if it held [3:4, 0:16], but it holds [2:3, 0:16]"));
}

TEST(CheckProgram, LoopsMustNotOverlap) {
  Tiles tiles;
  tiles.hand.program.loops.push_back({8, 9, 2});
  EXPECT_THAT(verdict(tiles.graph, tiles.hand.program),
              HasSubstr("a loop of instructions 8 to 9 runs 2 times, after one that ends at 9"));
}

}  // namespace
}  // namespace outsize
