#include "run/executor.h"

#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "hand_program.h"

namespace outsize {
namespace {

using Floats = std::vector<float>;

TEST(Executor, Swap) {
  const Graph graph = graph_of(kSwapGraph);
  const HandProgram hand = swap_program(graph);
  const auto backend = make_reference_backend();
  for (const bool debug : {false, true}) {
    Executor executor(graph, hand.program, *backend, traced(debug));
    for (int step = 0; step < 50; ++step) {
      write_values(executor, graph, "x", Floats{-1, 2, -3, 4});
      executor.step();
      // y = (0, 2, 0, 4), w = (0, 4, 0, 8)
      EXPECT_EQ(read_values(executor, graph, "z"), (Floats{-1, 6, -3, 12}));
    }
    EXPECT_EQ(hand.program.peak_bytes.device, 512 + 16);
    EXPECT_EQ(executor.measured_peak_bytes(), 512 + 16);
    ASSERT_EQ(executor.trace().events.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      const TraceEvent& event = executor.trace().events[i];
      EXPECT_EQ(event.instruction, static_cast<std::int32_t>(i));
      EXPECT_EQ(event.lane, hand.program.instructions[i].lane);
      EXPECT_LE(event.start, event.end);
      EXPECT_LE(event.end, executor.trace().seconds);
    }
    // The waits hold in time: w overwrites x only after it has left.
    EXPECT_LE(executor.trace().events[0].end, executor.trace().events[2].start);
    EXPECT_LE(executor.trace().events[3].end, executor.trace().events[4].start);
  }
}

// x goes to disk through host staging and its middle rows come back: a box of what lies in the file, as strided runs.
TEST(Executor, DiskTier) {
  const Graph graph = graph_of(R"(graph disk
input x f32[1, 2, 4, 3]
relu: y = relu(x)
output y
)");
  HandProgram hand(graph);
  const Box middle({0, 0, 1, 0}, {1, 2, 3, 3});
  const Box all = Box::whole({1, 2, 4, 3});
  const PieceId x = hand.piece("x", Tier::device, 0);
  const PieceId staging = hand.piece("x", Tier::host, 256);
  const PieceId file = hand.piece("x", Tier::disk, 4096);
  const PieceId back = hand.piece("x", Tier::host, 512, middle.shape());
  const PieceId part = hand.piece("x", Tier::device, 256, middle.shape());
  const PieceId y = hand.piece("y", Tier::device, 512);
  hand.input(x);
  hand.output(y);
  hand.move(Action::zero, {}, {hand.whole(y)});
  hand.move(Action::copy_out, {hand.whole(x)}, {hand.whole(staging)});
  hand.move(Action::disk_out, {hand.whole(staging)}, {hand.whole(file)}, {{Lane::copy_out, 1, 0}});
  hand.move(Action::disk_in, {hand.part(file, all, middle)}, {hand.part(back, middle, middle)}, {{Lane::disk_out, 1, 0}});
  hand.move(Action::copy_in, {hand.part(back, middle, middle)}, {hand.part(part, middle, middle)}, {{Lane::disk_in, 1, 0}});
  hand.kernel("relu", {hand.part(part, middle, middle)}, {hand.part(part, middle, middle)}, {{Lane::copy_in, 1, 0}});
  hand.move(Action::copy, {hand.part(part, middle, middle)}, {hand.part(y, all, middle)});
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend);
  Floats values(24);
  for (std::size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i) - 6;
  write_values(executor, graph, "x", values);
  executor.step();
  // Channel 0 holds -6…5, its rows 1 and 2 are -3…2; channel 1 holds 6…17, its rows 1 and 2 are 9…14.
  EXPECT_EQ(read_values(executor, graph, "y"),
            (Floats{0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 10, 11, 12, 13, 14, 0, 0, 0}));
}

TEST(Executor, InputOutputAndPersistentValuesOnDisk) {
  const Graph graph = graph_of(R"(graph far
input x f32[4]
param p f32[4]
relu: y = relu(x)
relu2: q = relu(p)
output y
)");
  HandProgram hand(graph);
  const PieceId x = hand.piece("x", Tier::disk, 0), p = hand.piece("p", Tier::disk, 64), y = hand.piece("y", Tier::disk, 128);
  const PieceId x_host = hand.piece("x", Tier::host, 0), y_host = hand.piece("y", Tier::host, 64);
  const PieceId x_device = hand.piece("x", Tier::device, 0), y_device = hand.piece("y", Tier::device, 0);
  hand.input(x);
  hand.persistent(p);
  hand.output(y);
  hand.move(Action::disk_in, {hand.whole(x)}, {hand.whole(x_host)});
  hand.move(Action::copy_in, {hand.whole(x_host)}, {hand.whole(x_device)}, {{Lane::disk_in, 1, 0}});
  hand.kernel("relu", {hand.whole(x_device)}, {hand.whole(y_device)}, {{Lane::copy_in, 1, 0}});
  hand.move(Action::copy_out, {hand.whole(y_device)}, {hand.whole(y_host)}, {{Lane::compute, 1, 0}});
  hand.move(Action::disk_out, {hand.whole(y_host)}, {hand.whole(y)}, {{Lane::copy_out, 1, 0}});
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend);
  write_values(executor, graph, "x", Floats{1, -1, 2, -2});
  write_values(executor, graph, "p", Floats{7, 8, 9, 10});
  executor.step();
  EXPECT_EQ(read_values(executor, graph, "y"), (Floats{1, 0, 2, 0}));
  EXPECT_EQ(read_values(executor, graph, "p"), (Floats{7, 8, 9, 10}));
}

constexpr std::string_view kRowsGraph = R"(graph rows
input x f32[400, 2]
relu: y = relu(x)
output y
)";

// x and y live in host memory; one row at a time passes through two device windows of one row each.
HandProgram rows_program(const Graph& graph) {
  HandProgram hand(graph);
  const Dims row{1, 2}, down{1, 0};
  const Box all = Box::whole({400, 2}), first = Box::whole(row);
  const PieceId x = hand.piece("x", Tier::host, 0), y = hand.piece("y", Tier::host, 4096);
  const PieceId window = hand.piece("x", Tier::device, 0, row), result = hand.piece("y", Tier::device, 256, row);
  hand.input(x);
  hand.output(y);
  const MovingBox moving{first, down};
  const auto at = [&](PieceId piece, const MovingBox& holds) { return hand.part(piece, holds, moving); };
  // Row i comes in when row i - 1 has been used, is computed when it is there and the result before has left.
  hand.move(Action::copy_in, {at(x, all)}, {at(window, moving)}, {{Lane::compute, 0, 1}});
  hand.kernel("relu", {at(window, moving)}, {at(result, moving)}, {{Lane::copy_in, 1, 1}, {Lane::copy_out, 0, 1}});
  hand.move(Action::copy_out, {at(result, moving)}, {at(y, all)}, {{Lane::compute, 1, 1}});
  hand.program.loops.push_back({0, 3, 400});
  return hand;
}

TEST(Executor, LoopStreamsRows) {
  const Graph graph = graph_of(kRowsGraph);
  const HandProgram hand = rows_program(graph);
  const auto backend = make_reference_backend();
  Floats x(800), expected(800);
  for (std::size_t i = 0; i < 800; ++i) {
    x[i] = (i % 3 == 0 ? -1.f : 1.f) * static_cast<float>(i);
    expected[i] = std::max(x[i], 0.f);
  }
  for (const bool debug : {false, true}) {
    Executor executor(graph, hand.program, *backend, traced(debug));
    for (int step = 0; step < 20; ++step) {
      write_values(executor, graph, "x", x);
      executor.step();
      ASSERT_EQ(read_values(executor, graph, "y"), expected);
    }
    ASSERT_EQ(executor.trace().events.size(), 1200u);
    const TraceEvent& event = executor.trace().events[3 * 7 + 1];  // the kernel of iteration 7
    EXPECT_EQ(event.instruction, 1);
    EXPECT_EQ(event.iteration, 7);
    EXPECT_EQ(executor.measured_peak_bytes(), 256 + 8);
  }
}

// A window of two rows moves down by one; the row that two windows share is carried. Every window's result is added to y, so row 0
// and row 3 count once, rows 1 and 2 twice.
TEST(Executor, LoopCarriesAndCombines) {
  const Graph graph = graph_of(R"(graph carry
input x f32[4, 2]
relu: y = relu(x)
output y
)");
  HandProgram hand(graph);
  const Box all = Box::whole({4, 2});
  const auto rows = [](std::int64_t lo, std::int64_t hi) { return Box({lo, 0}, {hi, 2}); };
  const auto moving = [&](std::int64_t lo, std::int64_t hi) { return MovingBox(rows(lo, hi), {1, 0}); };
  const PieceId x = hand.piece("x", Tier::host, 0);
  const PieceId carry = hand.piece("x", Tier::device, 0, {1, 2});
  const PieceId window = hand.piece("x", Tier::device, 256, {2, 2});
  const PieceId part = hand.piece("y", Tier::device, 512, {2, 2});
  const PieceId y = hand.piece("y", Tier::device, 768);
  hand.input(x);
  hand.output(y);
  hand.move(Action::zero, {}, {hand.whole(y)});
  hand.move(Action::copy_in, {hand.part(x, all, rows(0, 1))}, {hand.part(carry, rows(0, 1), rows(0, 1))});
  const auto begin = static_cast<std::int32_t>(hand.program.instructions.size());
  hand.move(Action::copy, {hand.part(carry, moving(0, 1), moving(0, 1))}, {hand.part(window, moving(0, 2), moving(0, 1))},
            {{Lane::copy_in, 1, 0}});
  // The compute lane completes 1 instruction before the loop and 4 an iteration; the window is free after the third of them, the
  // copy into the carry, of the iteration before.
  hand.move(Action::copy_in, {hand.part(x, all, moving(1, 2))}, {hand.part(window, moving(0, 2), moving(1, 2))},
            {{Lane::compute, 0, 4}});
  hand.kernel("relu", {hand.part(window, moving(0, 2), moving(0, 2))}, {hand.part(part, moving(0, 2), moving(0, 2))},
              {{Lane::copy_in, 2, 1}});
  hand.move(Action::copy, {hand.part(window, moving(0, 2), moving(1, 2))}, {hand.part(carry, moving(1, 2), moving(1, 2))});
  const Operand sum = hand.part(y, all, moving(0, 2));
  hand.move(Action::combine, {hand.part(part, moving(0, 2), moving(0, 2)), sum}, {sum}).combine = Combine::sum;
  hand.program.loops.push_back({begin, begin + 5, 3});
  // What enters a loop or leaves it lives through it.
  hand.program.piece(carry).last = begin + 4;
  const auto backend = make_reference_backend();
  for (const bool debug : {false, true}) {
    Executor executor(graph, hand.program, *backend, traced(debug));
    for (int step = 0; step < 20; ++step) {
      write_values(executor, graph, "x", Floats{1, -1, 2, 3, -4, 5, 6, 7});
      executor.step();
      EXPECT_EQ(read_values(executor, graph, "y"), (Floats{1, 0, 4, 6, 0, 10, 6, 7}));
    }
  }
}

// (1, 3) has count 2, mean 2, squared deviations 2; (5) has 1, 5, 0; together (1, 3, 5): 3, 3, 8.
TEST(Executor, CombinesStatistics) {
  const Graph graph = graph_of(R"(graph welford
input a f64[3, 1]
input b f64[3, 1]
sum: s = add(a, b)
output s
)");
  HandProgram hand(graph);
  const PieceId a = hand.piece("a", Tier::device, 0), b = hand.piece("b", Tier::device, 256),
                s = hand.piece("s", Tier::device, 512);
  hand.input(a);
  hand.input(b);
  hand.output(s);
  hand.move(Action::zero, {}, {hand.whole(s)});
  hand.move(Action::combine, {hand.whole(a), hand.whole(s)}, {hand.whole(s)}).combine = Combine::welford;
  hand.move(Action::combine, {hand.whole(b), hand.whole(s)}, {hand.whole(s)}).combine = Combine::welford;
  const auto backend = make_reference_backend();
  Executor executor(graph, hand.program, *backend);
  write_values(executor, graph, "a", std::vector<double>{2, 2, 2});
  write_values(executor, graph, "b", std::vector<double>{1, 5, 0});
  executor.step();
  EXPECT_EQ(read_values<double>(executor, graph, "s"), (std::vector<double>{3, 3, 8}));
}

// A kernel may read a box that is one range of a larger piece: one sample of a batch, but not the rows of two samples.
TEST(Executor, KernelsReadViews) {
  const Graph graph = graph_of(R"(graph views
input x f32[2, 1, 2, 2]
relu: y = relu(x)
output y
)");
  const Box all = Box::whole({2, 1, 2, 2}), second({1, 0, 0, 0}, {2, 1, 2, 2}), row({0, 0, 1, 0}, {2, 1, 2, 2});
  const auto program = [&](const Box& box) {
    HandProgram hand(graph);
    const PieceId x = hand.piece("x", Tier::device, 0), y = hand.piece("y", Tier::device, 256);
    hand.input(x);
    hand.output(y);
    hand.move(Action::zero, {}, {hand.whole(y)});
    hand.kernel("relu", {hand.part(x, all, box)}, {hand.part(y, all, box)});
    return hand;
  };
  const auto backend = make_reference_backend();
  const HandProgram good = program(second), bad = program(row);
  Executor executor(graph, good.program, *backend);
  write_values(executor, graph, "x", Floats{1, 2, 3, 4, 5, 6, 7, 8});
  executor.step();
  EXPECT_EQ(read_values(executor, graph, "y"), (Floats{0, 0, 0, 0, 5, 6, 7, 8}));
  EXPECT_THROW(Executor(graph, bad.program, *backend), InternalError);
}

// Three channels in a block of eight: what is written comes back, and the padding stays out of it.
TEST(Executor, CpuBackend) {
  const Graph graph = graph_of(R"(graph cpu
input x f32[2, 3, 2, 2]
relu: y = relu(x)
sum: z = add(x, y)
output z
)");
  const auto backend = make_backend("cpu", 2);
  HandProgram hand(graph, backend->storage());
  const PieceId x = hand.piece("x", Tier::device, 0), y = hand.piece("y", Tier::device, 1024);
  const PieceId host = hand.piece("x", Tier::host, 0), z = hand.piece("z", Tier::device, 2048);
  hand.input(host);
  hand.output(z);
  hand.move(Action::copy_in, {hand.whole(host)}, {hand.whole(x)});
  hand.kernel("relu", {hand.whole(x)}, {hand.whole(y)}, {{Lane::copy_in, 1, 0}});
  hand.kernel("sum", {hand.whole(x), hand.whole(y)}, {hand.whole(z)});
  EXPECT_EQ(hand.program.piece(z).bytes, 2 * 2 * 2 * 4 * backend->storage().channel_block);
  Executor executor(graph, hand.program, *backend, traced(true, 64));
  Floats values(24), expected(24);
  for (std::size_t i = 0; i < 24; ++i) {
    values[i] = static_cast<float>(i) - 12;
    expected[i] = values[i] < 0 ? values[i] : 2 * values[i];
  }
  write_values(executor, graph, "x", values);
  executor.step();
  EXPECT_EQ(read_values(executor, graph, "z"), expected);
  EXPECT_EQ(executor.measured_peak_bytes(), hand.program.peak_bytes.device);
}

TEST(Executor, CpuBackendRefusesF64) {
  const Graph graph = graph_of(R"(graph f64
input x f64[4]
relu: y = relu(x)
output y
)");
  const OpSite site{graph, graph.op(graph.find_op("relu"))};
  const auto backend = make_backend("cpu", 1);
  EXPECT_THROW(backend->kernel({site, site.op.def->gather(site, Box::whole({4})), {}}), UserError);
}

TEST(Executor, RefusesWhatDoesNotFit) {
  const Graph graph = graph_of(kSwapGraph);
  const auto backend = make_reference_backend();
  {
    const HandProgram hand = swap_program(graph);
    Executor executor(graph, hand.program, *backend);
    EXPECT_THROW(write_values(executor, graph, "x", Floats{1, 2, 3}), UserError);
    EXPECT_THROW(write_values(executor, graph, "y", Floats{1, 2, 3, 4}), UserError);
    EXPECT_THROW(read_values(executor, graph, "w"), UserError);
  }
  {
    HandProgram hand = swap_program(graph);
    hand.program.instructions[2].waits.push_back({Lane::disk_in, 1, 0});  // no such lane
    EXPECT_THROW(Executor(graph, hand.program, *backend), InternalError);
  }
  {
    HandProgram hand = swap_program(graph);
    hand.program.peak_bytes.device = 512;  // z does not lie in it
    EXPECT_THROW(Executor(graph, hand.program, *backend), InternalError);
  }
  {
    HandProgram hand = swap_program(graph);
    hand.program.storage.channel_block = 8;
    EXPECT_THROW(Executor(graph, hand.program, *backend), InternalError);
  }
}

}  // namespace
}  // namespace outsize
