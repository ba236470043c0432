#include "program/simulator.h"

#include <gtest/gtest.h>

#include "hand_program.h"

namespace outsize {
namespace {

// Rates small enough to reckon in seconds.
Profile slow_profile() {
  Profile profile;
  profile.device.bandwidth = 8;
  profile.device.link_out = 4;
  profile.device.link_in = 8;
  profile.device.disk_out = 2;
  profile.device.disk_in = 16;
  profile.device.launch_seconds = 0;
  profile.device.full_duplex = true;
  return profile;
}

void expect_times(const Trace& trace, const std::vector<std::pair<double, double>>& times) {
  ASSERT_EQ(trace.events.size(), times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_DOUBLE_EQ(trace.events[i].start, times[i].first) << "event " << i;
    EXPECT_DOUBLE_EQ(trace.events[i].end, times[i].second) << "event " << i;
  }
}

TEST(Simulator, LanesRunBesideEachOtherAndWait) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  Profile profile = slow_profile();
  profile.seconds["relu : f32[4] -> f32[4]"] = 3;
  profile.seconds["add : f32[4] f32[4] -> f32[4]"] = 2;
  const Trace trace = simulate(graph, hand.program, profile);
  // out: 16 bytes at 4; relu beside it; twice waits for both; in: 16 bytes at 8, after out (4) and twice (6); sum after in.
  expect_times(trace, {{0, 4}, {0, 3}, {4, 6}, {6, 8}, {8, 10}});
  EXPECT_DOUBLE_EQ(trace.seconds, 10);
  EXPECT_EQ(trace.events[3].lane, Lane::copy_in);
}

TEST(Simulator, KernelsAndCopiesSlowEachOther) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  Profile profile = slow_profile();
  profile.seconds["relu : f32[4] -> f32[4]"] = 3;
  profile.seconds["add : f32[4] f32[4] -> f32[4]"] = 2;
  profile.device.kernel_overlap = 2;
  profile.device.copy_overlap = 2;
  // relu takes 6 beside the copy out, of which 3 of 4 seconds' work is done then; the last runs alone. The rest has no company.
  expect_times(simulate(graph, hand.program, profile), {{0, 7}, {0, 6}, {7, 9}, {9, 11}, {11, 13}});
  profile.device.copy_overlap = 1;
  // The copy out ends at 4, when relu has done 2 of 3 seconds' work.
  expect_times(simulate(graph, hand.program, profile), {{0, 4}, {0, 5}, {5, 7}, {7, 9}, {9, 11}});
}

// x goes out, 16 bytes at 4, while it comes in to another place, at 8.
TEST(Simulator, CopiesBothWaysSlowEachOther) {
  const Graph graph = graph_of(kSwapGraph);
  HandProgram hand(graph);
  const PieceId x = hand.piece("x", Tier::device, 0), y = hand.piece("y", Tier::device, 256);
  const PieceId x_host = hand.piece("x", Tier::host, 0), y_host = hand.piece("y", Tier::host, 256);
  hand.move(Action::copy_out, {hand.whole(x)}, {hand.whole(x_host)});
  hand.move(Action::copy_in, {hand.whole(y_host)}, {hand.whole(y)});
  Profile profile = slow_profile();
  expect_times(simulate(graph, hand.program, profile), {{0, 4}, {0, 2}});
  // Each takes twice as long beside the other: the copy in ends at 4, when the copy out has done 2 of 4 seconds' work.
  profile.device.link_overlap = 2;
  expect_times(simulate(graph, hand.program, profile), {{0, 6}, {0, 4}});
  // Of a half duplex link each has all in turn.
  profile.device.full_duplex = false;
  expect_times(simulate(graph, hand.program, profile), {{0, 4}, {4, 6}});
}

TEST(Simulator, LaunchIsPaidByEveryInstruction) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  Profile profile = slow_profile();
  profile.device.launch_seconds = 0.5;
  profile.device.flops = 1e9;
  // relu moves 32 bytes at 8: 4 s; add 48: 6 s; each instruction 0.5 s more.
  expect_times(simulate(graph, hand.program, profile), {{0, 4.5}, {0, 4.5}, {4.5, 11}, {11, 13.5}, {13.5, 20}});
}

TEST(Simulator, MemoryBoundActionsAndDisk) {
  const Graph graph = graph_of(R"(graph actions
input x f32[4, 2]
relu: y = relu(x)
output y
)");
  HandProgram hand(graph);
  const Box all = Box::whole({4, 2}), row({2, 0}, {3, 2});
  const PieceId x = hand.piece("x", Tier::device, 0), y = hand.piece("y", Tier::device, 256);
  const PieceId host = hand.piece("x", Tier::host, 0), file = hand.piece("x", Tier::disk, 0);
  const auto row_of = [&](PieceId piece) { return hand.part(piece, all, row); };
  const Operand x_row = row_of(x), y_row = row_of(y);
  hand.input(x);
  hand.move(Action::zero, {}, {hand.whole(y)});                                                   // 32 bytes at 8: 4 s
  hand.move(Action::copy, {x_row}, {y_row});                                                      // 8 read, 8 written: 2 s
  hand.move(Action::combine, {x_row, y_row}, {y_row});                                            // 16 read, 8 written: 3 s
  hand.move(Action::copy_out, {hand.whole(x)}, {hand.whole(host)});                               // 32 bytes at 4: 8 s
  hand.move(Action::disk_out, {hand.whole(host)}, {hand.whole(file)}, {{Lane::copy_out, 1, 0}});  // 32 bytes at 2: 16 s
  hand.move(Action::disk_in, {row_of(file)}, {row_of(host)}, {{Lane::disk_out, 1, 0}});           // 8 at 16: 0.5 s
  expect_times(simulate(graph, hand.program, slow_profile()), {{0, 4}, {4, 6}, {6, 9}, {0, 8}, {8, 24}, {24, 24.5}});
}

// The copy in is issued first but ready only when the kernel ends, at 3; the copy out is ready at once.
TEST(Simulator, HalfDuplexServesWhoIsReadyFirst) {
  const Graph graph = graph_of(kSwapGraph);
  HandProgram hand(graph);
  const PieceId x = hand.piece("x", Tier::device, 0), y = hand.piece("y", Tier::device, 256);
  const PieceId host = hand.piece("x", Tier::host, 0), y_host = hand.piece("y", Tier::host, 256);
  const PieceId again = hand.piece("y", Tier::device, 512);
  hand.kernel("relu", {hand.whole(x)}, {hand.whole(y)});
  hand.move(Action::copy_in, {hand.whole(y_host)}, {hand.whole(again)}, {{Lane::compute, 1, 0}});
  hand.move(Action::copy_out, {hand.whole(x)}, {hand.whole(host)});
  Profile profile = slow_profile();
  profile.seconds["relu : f32[4] -> f32[4]"] = 3;
  expect_times(simulate(graph, hand.program, profile), {{0, 3}, {3, 5}, {0, 4}});
  profile.device.full_duplex = false;
  expect_times(simulate(graph, hand.program, profile), {{0, 3}, {4, 6}, {0, 4}});
}

// Rows of 8 bytes: in 1 s, relu 2 s, out 2 s. Row i + 1 comes in when row i is computed; row i is computed when result i - 1 is
// out.
TEST(Simulator, LoopsGiveWhatUnrollingGives) {
  const Graph graph = graph_of(R"(graph rows
input x f32[400, 2]
relu: y = relu(x)
output y
)");
  HandProgram hand(graph);
  const Dims row{1, 2};
  const MovingBox all(Box::whole({400, 2})), first(Box::whole(row), {1, 0});
  const PieceId x = hand.piece("x", Tier::host, 0), y = hand.piece("y", Tier::host, 4096);
  const PieceId window = hand.piece("x", Tier::device, 0, row), result = hand.piece("y", Tier::device, 256, row);
  hand.move(Action::copy_in, {hand.part(x, all, first)}, {hand.part(window, first, first)}, {{Lane::compute, 0, 1}});
  hand.kernel("relu", {hand.part(window, first, first)}, {hand.part(result, first, first)},
              {{Lane::copy_in, 1, 1}, {Lane::copy_out, 0, 1}});
  hand.move(Action::copy_out, {hand.part(result, first, first)}, {hand.part(y, all, first)}, {{Lane::compute, 1, 1}});
  hand.program.loops.push_back({0, 3, 400});
  Profile profile = slow_profile();
  profile.seconds["relu : f32[1, 2] -> f32[1, 2]"] = 2;
  {
    // Full duplex: relu of row i ends at 3 + 4 i, its result is out at 5 + 4 i.
    const Trace trace = simulate(graph, hand.program, profile);
    ASSERT_EQ(trace.events.size(), 1200u);
    EXPECT_DOUBLE_EQ(trace.events[3 * 7 + 1].end, 3 + 4 * 7);
    EXPECT_EQ(trace.events[3 * 7 + 1].iteration, 7);
    EXPECT_DOUBLE_EQ(trace.seconds, 5 + 4 * 399);
  }
  {
    // Half duplex: when relu of row i ends, result i leaves before row i + 1 comes: 2 + 1 + 2 s a row.
    profile.device.full_duplex = false;
    const Trace trace = simulate(graph, hand.program, profile);
    EXPECT_DOUBLE_EQ(trace.events[3 * 7 + 1].end, 3 + 5 * 7);
    EXPECT_DOUBLE_EQ(trace.seconds, 5 + 5 * 399);
  }
}

TEST(Simulator, ADeadlockIsNamed) {
  const Graph graph = graph_of(kSwapGraph);
  HandProgram hand = swap_program(graph);
  hand.program.instructions[0].waits.push_back({Lane::compute, 3, 0});
  EXPECT_THROW(simulate(graph, hand.program, slow_profile()), InternalError);
}

}  // namespace
}  // namespace outsize
