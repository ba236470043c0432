#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "hand_program.h"

namespace outsize {
namespace {

using testing::HasSubstr;

// Every value is 4 × 16 × 4 bytes = 256 bytes.
constexpr const char* kChain = R"(graph chain
input x f32[4, 16]
a: y = relu(x)
b: z = relu(y)
c: t = relu(z)
d: u = add(y, t)
output u
)";

// y waits on the host while t takes its place.
struct Swap {
  Graph graph = graph_of(kChain);
  HandProgram hand{graph};
  PieceId x = hand.device("x", 0);
  PieceId y = hand.device("y", 256);
  PieceId z = hand.device("z", 512);
  PieceId t = hand.device("t", 256);
  PieceId back = hand.device("y", 768);
  PieceId u = hand.device("u", 512);
  PieceId host = hand.piece("y", Tier::host, 0);

  Swap() {
    hand.input(x);
    hand.kernel("a", {hand.whole(x)}, {hand.whole(y)});                                          // compute 1
    hand.move(Action::copy_out, {hand.whole(y)}, {hand.whole(host)}, {{Lane::compute, 1}});      // copy_out 1
    hand.kernel("b", {hand.whole(y)}, {hand.whole(z)});                                          // compute 2
    hand.kernel("c", {hand.whole(z)}, {hand.whole(t)}, {{Lane::copy_out, 1}});                   // compute 3
    hand.move(Action::copy_in, {hand.whole(host)}, {hand.whole(back)}, {{Lane::copy_out, 1}});   // copy_in 1
    hand.kernel("d", {hand.whole(back), hand.whole(t)}, {hand.whole(u)}, {{Lane::copy_in, 1}});  // compute 4
    hand.output(u);
    hand.finish();
  }
  Program& program() { return hand.program; }
  Instruction& at(std::size_t i) { return program().instructions[i]; }
};

TEST(CheckProgram, SwapIsLegal) {
  Swap swap;
  EXPECT_EQ(swap.program().peak_bytes.device, 1024);
  EXPECT_EQ(swap.program().peak_bytes.host, 256);
  EXPECT_EQ(verdict(swap.graph, swap.program(), 1024), "");
}

TEST(CheckProgram, CopyOutMustWaitForTheKernelThatMakesItsSource) {
  Swap swap;
  swap.at(1).waits.clear();
  EXPECT_EQ(verdict(swap.graph, swap.program()),
            "program chain: instruction 1 (copy_out on copy_out) reads y, but nothing makes it wait for instruction 0 (kernel a on "
            "compute): it needs compute >= 1");
}

TEST(CheckProgram, KernelMustWaitForTheCopyOutOfWhatItOverwrites) {
  Swap swap;
  swap.at(3).waits.clear();
  EXPECT_EQ(
      verdict(swap.graph, swap.program()),
      "program chain: instruction 3 (kernel c on compute) writes t in the bytes of y, but nothing makes it wait for instruction "
      "1 (copy_out on copy_out): it needs copy_out >= 1");
}

TEST(CheckProgram, CopyInMustWaitForTheCopyOut) {
  Swap swap;
  swap.at(4).waits.clear();
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("instruction 4 (copy_in on copy_in) reads y"));
}

TEST(CheckProgram, KernelMustWaitForItsCopyIn) {
  Swap swap;
  swap.at(5).waits.clear();
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("it needs copy_in >= 1"));
}

TEST(CheckProgram, OrderPassesThroughLanes) {
  // Waiting for copy_in 1, which waited for copy_out 1, is waiting for copy_out 1: u may take y's bytes if t does not.
  Swap swap;
  Program& program = swap.program();
  program.piece(swap.t).offset = 1024;
  program.piece(swap.u).offset = 256;
  program.peak_bytes.device = 1280;
  swap.at(3).waits.clear();
  EXPECT_EQ(verdict(swap.graph, program), "");
  swap.at(5).waits = {{Lane::copy_out, 0}};
  EXPECT_NE(verdict(swap.graph, program), "");
}

TEST(CheckProgram, WaitingForWhatComesLaterIsADeadlock) {
  Swap swap;
  swap.at(1).waits = {{Lane::compute, 2}};
  EXPECT_EQ(
      verdict(swap.graph, swap.program()),
      "program chain: instruction 1 (copy_out on copy_out) waits for compute >= 2, but only 1 are issued before it: a deadlock");
  swap.at(1).waits = {{Lane::compute, 1}, {Lane::copy_out, 1}};
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("copy_out >= 1, but only 0 are issued"));
}

TEST(CheckProgram, LivePiecesMustNotOverlap) {
  Swap swap;
  swap.program().piece(swap.z).offset = 256;
  EXPECT_EQ(verdict(swap.graph, swap.program()), "program chain: z at 256 and y at 256 overlap and both live at instruction 2");
  swap.program().piece(swap.z).offset = 384;  // half of it
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("overlap and both live"));
}

TEST(CheckProgram, PeakMustBeTheOneStatedAndWithinTheBudget) {
  Swap swap;
  EXPECT_EQ(verdict(swap.graph, swap.program(), 1023),
            "program chain: the device peak of 1024 bytes exceeds the budget of 1023 by 1 bytes");
  swap.program().peak_bytes.device = 1280;
  EXPECT_EQ(verdict(swap.graph, swap.program()),
            "program chain: the device peak is stated as 1280 bytes, but its pieces reach 1024");
  swap.program().peak_bytes.device = 1024;
  swap.program().peak_bytes.host = 0;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("the host peak is stated as 0 bytes, but its pieces reach 256"));
}

TEST(CheckProgram, LifetimesMustCoverUses) {
  Swap swap;
  swap.program().piece(swap.z).last = 2;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("takes z, which lives from instruction 2 to 2"));
}

TEST(CheckProgram, WhatIsReadMustHaveBeenWritten) {
  Swap swap;
  std::swap(swap.at(2).reads, swap.at(3).reads);
  swap.program().piece(swap.z).first = 0;
  swap.program().piece(swap.y).last = 2;
  swap.program().piece(swap.z).last = 3;
  swap.at(2).reads[0].piece = swap.t;  // t is written only at 3
  swap.program().piece(swap.t).first = 2;
  swap.program().piece(swap.t).offset = 1024;
  swap.program().peak_bytes.device = 1280;
  EXPECT_EQ(verdict(swap.graph, swap.program()),
            "program chain: instruction 2 (kernel b on compute) reads t, which was never written");
}

TEST(CheckProgram, WhatIsReadMustBeTheValueThatTheOpWants) {
  Swap swap;
  swap.at(3).reads[0].piece = swap.y;  // c wants z
  swap.program().piece(swap.y).last = 3;
  swap.program().piece(swap.t).offset = 1024;
  swap.program().peak_bytes.device = 1280;
  EXPECT_EQ(verdict(swap.graph, swap.program()),
            "program chain: instruction 3 (kernel c on compute) expects z in y, but y was written there");
}

TEST(CheckProgram, AccessMustLieInsideItsPiece) {
  Swap swap;
  const BoxId five = swap.program().boxes.add(rows(0, 5, 16));
  swap.at(2).reads[0].box = five;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("takes [0:5, 0:16] of y, which holds only [0:4, 0:16]"));
  swap.at(2).reads[0].holds = five;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("as holding [0:5, 0:16], outside f32[4, 16]"));
  swap.at(2).reads[0] = swap.hand.whole(swap.y);
  swap.program().piece(swap.y).bytes = 255;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("256 bytes in a piece of 255"));
}

TEST(CheckProgram, CopiesMoveEqualBoxesBetweenTheirTiers) {
  Swap swap;
  swap.at(1).writes[0].box = swap.program().boxes.add(rows(0, 3, 16));
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("moves y [0:4, 0:16] to y [0:3, 0:16]"));
  swap.at(1).writes[0].piece = swap.back;
  swap.program().piece(swap.back).first = 1;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("moves from device to device"));
}

TEST(CheckProgram, PartsMustCoverWhatIsRead) {
  Swap swap;
  // Only two of four rows come back.
  swap.at(4).reads[0].box = swap.at(4).writes[0].box = swap.program().boxes.add(rows(0, 2, 16));
  EXPECT_EQ(verdict(swap.graph, swap.program()),
            "program chain: instruction 5 (kernel d on compute) reads y [0:4, 0:16], of which 32 elements were never written");
}

// 1 + 60 × 3 + 19 = 200 rows, copied part by part: one row, sixty threes, nineteen.
TEST(CheckProgram, ManyPartsOfDifferentLengthsAddUp) {
  const Graph graph = graph_of("graph g\ninput x f32[200, 16]\na: y = relu(x)\noutput x\n");
  for (const std::size_t left_out : {std::size_t{99}, std::size_t{0}, std::size_t{30}, std::size_t{61}}) {
    HandProgram hand(graph);
    const PieceId x = hand.device("x", 0), copied = hand.device("x", 12800);
    hand.input(x);
    std::vector<Box> parts{rows(0, 1, 16)};
    for (std::int64_t i = 0; i < 60; ++i) parts.push_back(rows(1 + 3 * i, 4 + 3 * i, 16));
    parts.push_back(rows(181, 200, 16));
    std::int64_t missing = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Operand from = hand.whole(x), to = hand.whole(copied);
      from.box = to.box = hand.program.boxes.add(parts[i]);
      if (i == left_out)
        missing = parts[i].elements();
      else
        hand.move(Action::copy, {from}, {to});
    }
    hand.output(copied);
    const std::string said = verdict(graph, hand.finish());
    if (missing == 0)
      EXPECT_EQ(said, "");
    else
      EXPECT_THAT(said, HasSubstr(fmt::format("of which {} elements were never written", missing)));
  }
}

// The whole of y comes back in two halves, on two lanes that do not wait for each other.
struct Halves : Swap {
  Halves(Box first, Box second) {
    Program& program_ = program();
    Instruction other = at(4);
    at(4).reads[0].box = at(4).writes[0].box = program_.boxes.add(first);
    other.reads[0].box = other.writes[0].box = program_.boxes.add(second);
    other.lane = Lane::disk_in;
    program_.instructions.insert(program_.instructions.begin() + 5, other);
    at(6).waits.push_back({Lane::disk_in, 1});
    for (const PieceId id : {back, t, u, host}) program_.piece(id).last = 6;
    program_.piece(u).first = 6;
  }
};

TEST(CheckProgram, DisjointPartsNeedNoOrder) {
  Halves halves(rows(0, 2, 16), rows(2, 4, 16));
  EXPECT_EQ(verdict(halves.graph, halves.program()), "");
  halves.at(6).waits = {{Lane::copy_in, 1}};
  EXPECT_THAT(verdict(halves.graph, halves.program()), HasSubstr("it needs disk_in >= 1"));
}

TEST(CheckProgram, OverlappingPartsNeedOrder) {
  Halves halves(rows(0, 3, 16), rows(2, 4, 16));
  EXPECT_THAT(verdict(halves.graph, halves.program()), HasSubstr("instruction 5 (copy_in on disk_in) writes y"));
  halves.at(5).waits.push_back({Lane::copy_in, 1});
  EXPECT_EQ(verdict(halves.graph, halves.program()), "");
}

// The second half must follow what its bytes held before, even though the first half took the piece over in good order.
TEST(CheckProgram, EveryPartFollowsWhatItsBytesHeldBefore) {
  Halves halves(rows(0, 2, 16), rows(2, 4, 16));
  Program& program = halves.program();
  program.piece(halves.back).offset = 0;  // x was there, read by compute 1
  program.peak_bytes.device = 768;
  halves.at(4).waits = {{Lane::copy_out, 1}};  // which follows compute 1
  halves.at(5).waits = {{Lane::copy_out, 1}};
  EXPECT_EQ(verdict(halves.graph, program), "");
  halves.at(5).waits = {};
  EXPECT_NE(verdict(halves.graph, program), "");
}

TEST(CheckProgram, OutputsMustSurvive) {
  const Graph graph = graph_of("graph g\ninput x f32[4, 16]\na: y = relu(x)\nb: z = relu(x)\noutput y\n");
  HandProgram hand(graph);
  const PieceId x = hand.device("x", 0), y = hand.device("y", 256), z = hand.device("z", 256);
  hand.input(x);
  hand.kernel("a", {hand.whole(x)}, {hand.whole(y)});
  hand.kernel("b", {hand.whole(x)}, {hand.whole(z)});
  hand.finish();
  hand.program.outputs.push_back({graph.find_value("y"), y});  // with y's life ending at 0, as a faulty lowering would have it
  EXPECT_EQ(verdict(graph, hand.program), "program g: the caller reads y, which z has overwritten");
  hand.program.outputs.back() = {graph.find_value("y"), z};
  EXPECT_EQ(verdict(graph, hand.program), "program g: y should be in piece z at the end, but z is there");
}

TEST(CheckProgram, InputsMustNotOverlap) {
  const Graph graph = graph_of("graph g\ninput x f32[4, 16]\ninput w f32[4, 16]\na: y = relu(x)\noutput y\n");
  HandProgram hand(graph);
  const PieceId x = hand.device("x", 0), w = hand.device("w", 128), y = hand.device("y", 512);
  hand.input(x);
  hand.kernel("a", {hand.whole(x)}, {hand.whole(y)});
  hand.output(y);
  hand.finish();
  hand.program.piece(w).first = hand.program.piece(w).last = 1;
  hand.program.inputs.push_back({graph.find_value("w"), w});
  EXPECT_NE(verdict(graph, hand.program), "");
  hand.program.piece(w).offset = 768;
  hand.program.piece(w).first = hand.program.piece(w).last = 0;
  hand.program.peak_bytes.device = 1024;
  EXPECT_EQ(verdict(graph, hand.program), "");
}

// relu may overwrite its input; relu_grad(dy, y) may overwrite dy but not y.
struct InPlace {
  Graph graph = graph_of("graph g\ninput x f32[4, 16]\na: y = relu(x)\nb: z = relu(y)\nc: g = relu_grad(y, z)\noutput g\n");
  HandProgram hand{graph};
  PieceId x = hand.device("x", 0);
  PieceId y = hand.device("y", 256);
  PieceId z = hand.device("z", 512);
  PieceId g;

  explicit InPlace(std::int64_t offset_of_g, bool over_y, bool over_z) : g(hand.device("g", offset_of_g)) {
    if (over_y) hand.program.piece(g).shares = y;
    if (over_z) hand.program.piece(g).shares = z;
    hand.input(x);
    hand.kernel("a", {hand.whole(x)}, {hand.whole(y)});
    hand.kernel("b", {hand.whole(y)}, {hand.whole(z)});
    hand.kernel("c", {hand.whole(y), hand.whole(z)}, {hand.whole(g)});
    hand.output(g);
    hand.finish();
  }
};

TEST(CheckProgram, OutputMayTakeOverAnInputWhereTheOpAllows) {
  InPlace legal(256, true, false);
  EXPECT_EQ(verdict(legal.graph, legal.hand.program), "");
}

TEST(CheckProgram, OutputMayNotTakeOverAnotherInput) {
  InPlace wrong(512, false, true);
  EXPECT_EQ(verdict(wrong.graph, wrong.hand.program),
            "program g: instruction 2 (kernel c on compute) writes g over z, which it reads, and may not do so in place");
}

TEST(CheckProgram, TakingOverMustBeSaid) {
  InPlace unsaid(256, false, false);
  EXPECT_NE(verdict(unsaid.graph, unsaid.hand.program), "");
  InPlace elsewhere(768, true, false);
  EXPECT_EQ(verdict(elsewhere.graph, elsewhere.hand.program), "program g: g at 768 is to take over the bytes of y at 256");
}

TEST(CheckProgram, WhatWasTakenOverIsGone) {
  const Graph graph = graph_of("graph g\ninput x f32[4, 16]\na: y = relu(x)\nb: z = relu(y)\nc: u = add(y, z)\noutput u\n");
  HandProgram hand(graph);
  const PieceId x = hand.device("x", 0), y = hand.device("y", 256), z = hand.device("z", 256), u = hand.device("u", 512);
  hand.program.piece(z).shares = y;
  hand.input(x);
  hand.kernel("a", {hand.whole(x)}, {hand.whole(y)});
  hand.kernel("b", {hand.whole(y)}, {hand.whole(z)});
  hand.kernel("c", {hand.whole(y), hand.whole(z)}, {hand.whole(u)});
  hand.output(u);
  EXPECT_EQ(verdict(graph, hand.finish()), "program g: instruction 2 (kernel c on compute) reads y, which z has overwritten");
}

TEST(CheckProgram, WorkspaceIsWrittenToo) {
  Swap swap;
  const PieceId scratch = swap.hand.workspace(256, 128);
  swap.hand.use_workspace(scratch);  // by d, where t lies
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("overlap and both live"));
  // Where y lay, whose copy-out c waits for no longer once t is elsewhere: d's own wait for copy_in covers it.
  swap.program().piece(swap.t).offset = 1024;
  swap.program().peak_bytes.device = 1280;
  swap.at(3).waits.clear();
  EXPECT_EQ(verdict(swap.graph, swap.program()), "");
  swap.at(3).workspace = scratch;  // but c's use of it does not follow the copy-out
  swap.program().piece(scratch).first = 3;
  EXPECT_THAT(verdict(swap.graph, swap.program()), HasSubstr("writes workspace in the bytes of y"));
}

constexpr const char* kUpdate = R"(graph update
param w f32[4, 16] init=ones
input g f32[4, 16]
input lr f32[1]
a: y = relu(w)
s: w.next = sgd(w, g, lr) @update
output y
)";

TEST(CheckProgram, UpdatesHappenInPlaceAndEndTheOldVersion) {
  const Graph graph = graph_of(kUpdate);
  for (const bool in_order : {true, false}) {
    HandProgram hand(graph);
    const PieceId w = hand.device("w", 0), g = hand.device("g", 256), lr = hand.device("lr", 512), y = hand.device("y", 768);
    hand.persistent(w);
    hand.input(g);
    hand.input(lr);
    const auto forward = [&] { hand.kernel("a", {hand.whole(w)}, {hand.whole(y)}); };
    if (in_order) forward();
    hand.kernel("s", {hand.whole(w), hand.whole(g), hand.whole(lr)}, {hand.whole(w)});
    if (!in_order) forward();
    hand.output(y);
    EXPECT_EQ(verdict(graph, hand.finish()),
              in_order ? "" : "program update: instruction 1 (kernel a on compute) expects w in w, but w.next was written there");
  }
}

TEST(CheckProgram, AccumulatorsMustBeZeroedFirst) {
  const Graph graph = graph_of("graph g\ninput x f32[4, 16]\na: y = relu(x)\noutput y\n");
  for (const bool zeroed : {true, false}) {
    HandProgram hand(graph);
    const PieceId x = hand.device("x", 0), part = hand.device("y", 256), sum = hand.device("y", 512);
    hand.input(x);
    if (zeroed) hand.move(Action::zero, {}, {hand.whole(sum)});
    hand.kernel("a", {hand.whole(x)}, {hand.whole(part)});
    hand.move(Action::combine, {hand.whole(part), hand.whole(sum)}, {hand.whole(sum)}).combine = Combine::sum;
    hand.output(sum);
    const std::string said = verdict(graph, hand.finish());
    if (zeroed)
      EXPECT_EQ(said, "");
    else
      EXPECT_THAT(said, HasSubstr("reads y, which was never written"));
  }
}

// A long chain that keeps everything: a piece an instruction, all on one lane.
TEST(CheckProgram, HalfAMillionInstructionsASecond) {
  constexpr int kLayers = 100'000;
  std::string text = "graph deep\ninput v0 f32[4, 16]\n";
  for (int i = 0; i < kLayers; ++i) text += fmt::format("op{}: v{} = add(v{}, v{})\n", i, i + 1, i, std::max(0, i - 1));
  text += fmt::format("output v{}\n", kLayers);
  const Graph graph = graph_of(text);
  HandProgram hand(graph);
  for (int i = 0; i <= kLayers; ++i) hand.device(graph.value(ValueId(i)).name, 256 * (i % 4));
  hand.input(PieceId(0));
  for (int i = 0; i < kLayers; ++i)
    hand.kernel(fmt::format("op{}", i), {hand.whole(PieceId(i)), hand.whole(PieceId(std::max(0, i - 1)))},
                {hand.whole(PieceId(i + 1))});
  hand.output(PieceId(kLayers));
  hand.finish();
  const std::clock_t start = std::clock();  // processor time: other work on the machine does not count
  EXPECT_EQ(verdict(graph, hand.program), "");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("instructions_per_second", std::to_string(kLayers / seconds));
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(seconds, kLayers / 500'000.0);
#endif
}

}  // namespace
}  // namespace outsize
