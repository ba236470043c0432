#include <gtest/gtest.h>

#include "hand_program.h"

namespace outsize {
namespace {

TEST(PrintProgram, OneInstructionALine) {
  const Graph graph = graph_of(R"(graph chain
input x f32[4, 16]
param w f32[4, 16] init=ones
first: y = relu(x)
second.long: z = add(y, w)
output z
)");
  HandProgram hand(graph);
  const PieceId x = hand.device("x", 0), w = hand.device("w", 256), y = hand.device("y", 512), z = hand.device("z", 768);
  const PieceId host = hand.piece("y", Tier::host, 0);
  hand.input(x);
  hand.persistent(w);
  hand.kernel("first", {hand.whole(x)}, {hand.whole(y)});
  hand.move(Action::copy_out, {hand.whole(y)}, {hand.whole(host)}, {{Lane::compute, 1}});
  Operand half = hand.whole(y);
  Operand other = hand.whole(z);
  half.box = other.box = hand.program.boxes.add(rows(0, 2, 16));
  hand.move(Action::copy, {half}, {other});
  hand.move(Action::combine, {hand.whole(y), hand.whole(z)}, {hand.whole(z)}).combine = Combine::sum;
  hand.kernel("second.long", {hand.whole(y), hand.whole(w)}, {hand.whole(z)}, {{Lane::copy_in, 0}, {Lane::copy_out, 1}}).recompute =
      true;
  hand.use_workspace(hand.workspace(1024, 100));
  hand.output(z);
  hand.finish();
  hand.program.live_bytes = 1280;

  EXPECT_EQ(print_program(graph, hand.program), R"(program chain by hand: 5 instructions, 6 pieces
peak device 1124 (live 1280), host 256, disk 0
input       x  x@0+256
persistent  w  w@256+256
output      z  z@768+256
0  compute   kernel first              x@0+256 -> y@512+256
1  copy_out  copy_out                  y@512+256 -> host:y@0+256  wait compute>=1
2  compute   copy                      y@512+256 [0:2, 0:16] of [0:4, 0:16] -> z@768+256 [0:2, 0:16] of [0:4, 0:16]
3  compute   combine sum               y@512+256, z@768+256 -> z@768+256
4  compute   kernel second.long again  y@512+256, w@256+256 -> z@768+256  using workspace@1024+100  wait copy_in>=0, copy_out>=1
)");
}

TEST(PrintProgram, LoopsShowWhatMoves) {
  const Graph graph = graph_of("graph tiles\ninput x f32[8, 16]\na: y = relu(x)\noutput y\n");
  HandProgram hand(graph);
  const PieceId x = hand.piece("x", Tier::host, 0), window = hand.device("x", 0, {2, 16}), y = hand.device("y", 256);
  hand.input(x);
  const MovingBox two{rows(0, 2, 16), {2, 0}}, all = rows(0, 8, 16);
  const auto part = [&](PieceId piece, const MovingBox& holds) { return hand.program.operand(piece, holds, two); };
  hand.move(Action::zero, {}, {hand.whole(y)});
  hand.move(Action::copy_in, {part(x, all)}, {part(window, two)}, {{Lane::compute, 1, 1}});
  hand.kernel("a", {part(window, two)}, {part(y, all)}, {{Lane::copy_in, 1, 1}}).owned = hand.program.boxes.add(two);
  hand.loop(1, 4);
  hand.output(y);

  EXPECT_EQ(print_program(graph, hand.finish()), R"(program tiles by hand: 3 instructions, 3 pieces
peak device 768 (live 0), host 512, disk 0
input       x  host:x@0+512
output      y  y@256+512
0  compute   zero      -> y@256+512
loop 4 {
  1  copy_in   copy_in   host:x@0+512 [0:2, 0:16]+i*[2, 0] of [0:8, 0:16] -> x@0+128 [0:2, 0:16]+i*[2, 0]  wait compute>=1+1i
  2  compute   kernel a  x@0+128 [0:2, 0:16]+i*[2, 0] -> y@256+512 [0:2, 0:16]+i*[2, 0] of [0:8, 0:16]  owned [0:2, 0:16]+i*[2, 0]  wait copy_in>=1+1i
}
)");

  const Call call = call_of(graph, hand.program, hand.program.instructions[2], 3);
  EXPECT_EQ(call.site.op.name, "a");
  EXPECT_EQ(call.boxes.in, std::vector<Box>{rows(6, 8, 16)});
  EXPECT_EQ(call.boxes.out, std::vector<Box>{rows(6, 8, 16)});
  EXPECT_EQ(call.owned, rows(6, 8, 16));
}

TEST(PrintProgram, EveryLaneAndActionHasAName) {
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_NE(name_of(static_cast<Lane>(lane)), "?");
  for (int action = 0; action <= static_cast<int>(Action::disk_in); ++action) EXPECT_NE(name_of(static_cast<Action>(action)), "?");
}

}  // namespace
}  // namespace outsize
