// Streamed results in the bytes of what their pass reads for the last time: when lowering may do so, what must wait for what, and
// that the checker finds a program that overwrites too early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hand_program.h"
#include "program/lower.h"
#include "program/waits.h"

namespace outsize {
namespace {

using testing::HasSubstr;

// Maps of 2 × 8 × 4 numbers take 256 bytes, on the host and on disk at multiples of 256; those of half the rows 128.
constexpr std::int64_t kMap = 256;

// x → u → v → z on 8 rows; u and v are streamed, z is put out.
constexpr const char* kPointwise = R"(graph g
input x f32[1, 2, 8, 4]
a: u = relu(x)
b: v = sigmoid(u)
c: z = relu(v)
output z
)";

constexpr const char* kConvolution = R"(graph g
input x f32[1, 2, 8, 4]
param w f32[2, 2, 3, 3] init=zeros
a: u = relu(x)
b: v = conv2d(u, w) padding=[1, 1, 1, 1]
c: z = relu(v)
output z
)";

constexpr const char* kReadAgain = R"(graph g
input x f32[1, 2, 8, 4]
a: u = relu(x)
b: v = sigmoid(u)
c: z = add(u, v)
output z
)";

constexpr const char* kSmaller = R"(graph g
input x f32[1, 2, 8, 4]
a: u = relu(x)
b: v = avg_pool(u) kernel=[2, 1] stride=[2, 1]
c: z = relu(v)
output z
)";

// The gradients of two convolutions: da and db belong to a and b, dc comes from elsewhere.
constexpr const char* kGradients = R"(graph g
input x f32[1, 2, 8, 4]
input dc f32[1, 2, 8, 4]
param w2 f32[2, 2, 3, 3] init=zeros
param w3 f32[2, 2, 3, 3] init=zeros
conv1: a = relu(x)
conv2: b = conv2d(a, w2) padding=[1, 1, 1, 1]
g3: db = conv2d_grad_data(dc, w3) padding=[1, 1, 1, 1] input=[8, 4] @backward(conv2) @gradient(b)
g3w: dw3 = conv2d_grad_weight(dc, b) padding=[1, 1, 1, 1] kernel=[3, 3] @backward(conv2) @gradient(w3)
g2: da = conv2d_grad_data(db, w2) padding=[1, 1, 1, 1] input=[8, 4] @backward(conv2) @gradient(a)
g2w: dw2 = conv2d_grad_weight(db, a) padding=[1, 1, 1, 1] kernel=[3, 3] @backward(conv2) @gradient(w2)
output da
output dw2
output dw3
)";

Program lowered(const Graph& graph, std::string_view plan, bool takeovers = true, bool loops = true) {
  LowerOptions options;
  options.takeovers = takeovers;
  options.loops = loops;
  return lower(graph, parse_plan(graph, plan, "test.plan"), options).take();
}

// A pass each for a, b and c, with b's in that grid and u and v in that tier.
std::string three_passes(const std::string& grid = "[1, 1, 4, 1]", const std::string& tier = "host") {
  return fmt::format(
      "stream u {1}\nstream v {1}\npass p1 driver=u grid=[1, 1, 4, 1] ops=[a]\npass p2 driver=v grid={0} ops=[b]\n"
      "pass p3 driver=z grid=[1, 1, 4, 1] ops=[c]\n",
      grid, tier);
}

// Of kGradients, a pass for each convolution, those of backward with these drivers and grids.
std::string backward_passes(const std::string& of_b, const std::string& of_a) {
  return fmt::format(
      "stream a host\nstream b host\nstream db host\nstream da host\npass f1 driver=a grid=[1, 1, 4, 1] ops=[conv1]\n"
      "pass f2 driver=b grid=[1, 1, 4, 1] ops=[conv2]\npass b3 {} ops=[g3, g3w]\npass b2 {} ops=[g2, g2w]\n",
      of_b, of_a);
}

struct Case {
  const char* name;
  const char* graph;
  std::string plan;
  std::int64_t host;     // bytes with takeovers, …
  std::int64_t without;  // … and without
  std::int64_t disk = 0;
  std::int64_t disk_without = 0;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const Case kCases[] = {
    {"pointwise", kPointwise, three_passes(), kMap, 2 * kMap},
    // On disk it is the same; the host has what passes through: as many rows as a tile has, 64 bytes.
    {"on_disk", kPointwise, three_passes("[1, 1, 4, 1]", "disk"), 64, 64, kMap, 2 * kMap},
    // What goes to disk passes through the host where u was.
    {"two_tiers", kPointwise, R"(
stream u host
stream v disk
pass p1 driver=u grid=[1, 1, 1, 1] ops=[a]
pass p2 driver=v grid=[1, 1, 1, 1] ops=[b]
pass p3 driver=z grid=[1, 1, 1, 1] ops=[c]
)",
     kMap, kMap, kMap, kMap},
    // An input may be read again by the next step.
    {"of_an_input", kPointwise, R"(
stream x host
stream u host
pass p1 driver=u grid=[1, 1, 4, 1] ops=[a]
pass p2 driver=v grid=[1, 1, 4, 1] ops=[b]
run c
)",
     2 * kMap, 2 * kMap},
    // The second tile reads the last row that the first has written, …
    {"window_reaches_back", kConvolution, three_passes(), 2 * kMap, 2 * kMap},
    {"window_reaches_back_in_columns", kConvolution, three_passes("[1, 1, 1, 2]"), 2 * kMap, 2 * kMap},
    // … but a single tile reads all before it writes.
    {"one_tile", kConvolution, three_passes("[1, 1, 1, 1]"), kMap, 2 * kMap},
    {"read_again", kReadAgain, three_passes(), 2 * kMap, 2 * kMap},
    {"brought_in_again", kPointwise, R"(
stream u host
stream v host
pass p1 driver=u grid=[1, 1, 4, 1] ops=[a]
pass p2 driver=v grid=[1, 1, 4, 1] ops=[b]
in u
drop u
pass p3 driver=z grid=[1, 1, 4, 1] ops=[c]
)",
     2 * kMap, 2 * kMap},
    {"another_shape", kSmaller, three_passes(), kMap + kMap / 2, kMap + kMap / 2},
    // Tile i completes rows [2i, 2i+2) of db. The weight's gradient accounts for the rows of dc that a tile is the first to read,
    // and reads of b one row more on both sides: from row 2i on. It runs first. So a and b, with da and db in their place.
    {"gradients", kGradients, backward_passes("driver=db grid=[1, 1, 4, 1]", "driver=da grid=[1, 1, 4, 1]"), 2 * kMap, 3 * kMap},
    // In both dimensions it is the same.
    {"gradients_in_rows_and_columns", kGradients, backward_passes("driver=db grid=[1, 1, 4, 2]", "driver=da grid=[1, 1, 2, 2]"),
     2 * kMap, 3 * kMap},
    // From the last tile to the first it is not: each reads of b what the one before has written of db.
    {"gradients_down", kGradients,
     backward_passes("driver=db grid=[1, 1, 4, 1] order=down", "driver=da grid=[1, 1, 4, 1] order=down"), 3 * kMap, 3 * kMap},
    // Pushed gradients of neighbouring tiles add up in the stored one, which is zero before the first.
    {"pushed_gradients", kGradients, backward_passes("driver=dc grid=[1, 1, 4, 1]", "driver=db grid=[1, 1, 4, 1]"), 3 * kMap,
     3 * kMap},
};

class Takeovers : public testing::TestWithParam<Case> {};

TEST_P(Takeovers, TakeAsManyBytesAsTheyShould) {
  const Case& c = GetParam();
  const Graph graph = graph_of(c.graph);
  for (const bool loops : {true, false}) {
    const Program with = lowered(graph, c.plan, true, loops), without = lowered(graph, c.plan, false, loops);
    EXPECT_EQ(with.peak_bytes.host, c.host);
    EXPECT_EQ(with.peak_bytes.disk, c.disk);
    EXPECT_EQ(without.peak_bytes.host, c.without);
    EXPECT_EQ(without.peak_bytes.disk, c.disk_without);
  }
}

INSTANTIATE_TEST_SUITE_P(Lowering, Takeovers, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

// u on the host, 8 rows in two tiles of 4, replaced by v tile by tile.
//                                       lane ordinals
//   0  a         x → made                compute 1
//   1  copy_out  made → u                copy_out 1
//   2  copy_in   u 0:4 → window 0        copy_in 1
//   3  b         window 0 → out 0        compute 2
//   4  copy_out  out 0 → v 0:4           copy_out 2
//   5  copy_in   u 4:8 → window 1        copy_in 2
//   6  b         window 1 → out 1        compute 3
//   7  copy_out  out 1 → v 4:8           copy_out 3
//   8  copy_in   v → whole               copy_in 3
struct TwoTiles {
  Graph graph = graph_of("graph g\ninput x f32[8, 8]\na: u = relu(x)\nb: v = sigmoid(u)\noutput v\n");
  HandProgram hand{graph};
  PieceId x = hand.device("x", 0), made = hand.device("u", 256);
  PieceId u = hand.piece("u", Tier::host, 0), v = hand.piece("v", Tier::host, 0);
  PieceId window[2] = {hand.device("u", 512, {4, 8}), hand.device("u", 768, {5, 8})};
  PieceId out[2] = {hand.device("v", 1024, {4, 8}), hand.device("v", 1280, {4, 8})};
  PieceId whole = hand.device("v", 1536);

  // `second`: the first row that the second tile reads.
  explicit TwoTiles(std::int64_t second = 4) {
    hand.program.piece(v).shares = u;
    hand.input(x);
    const auto part = [&](PieceId piece, Box holds, Box box) { return hand.program.operand(piece, holds, box); };
    const Box all = rows(0, 8, 8);
    hand.kernel("a", {hand.whole(x)}, {hand.whole(made)});
    hand.move(Action::copy_out, {hand.whole(made)}, {hand.whole(u)}, {{Lane::compute, 1}});
    for (std::int64_t tile = 0; tile < 2; ++tile) {
      const Box own = rows(4 * tile, 4 * tile + 4, 8), read = tile == 0 ? own : rows(second, 8, 8);
      const PieceId in = window[tile], computed = out[tile];
      hand.move(Action::copy_in, {part(u, all, read)}, {part(in, read, read)});
      if (tile == 0) hand.program.instructions.back().waits = {{Lane::copy_out, 1}};
      hand.kernel("b", {part(in, read, own)}, {part(computed, own, own)}, {{Lane::copy_in, tile + 1}});
      hand.move(Action::copy_out, {part(computed, own, own)}, {part(v, all, own)}, {{Lane::compute, tile + 2}});
    }
    hand.move(Action::copy_in, {hand.whole(v)}, {hand.whole(whole)}, {{Lane::copy_out, 3}});
    hand.output(whole);
    hand.finish();
  }
};

TEST(CheckTakeover, RowsReadForTheLastTimeMayBeOverwritten) {
  TwoTiles tiles;
  EXPECT_EQ(verdict(tiles.graph, tiles.hand.program), "");
}

TEST(CheckTakeover, RowsStillToBeReadMayNot) {
  TwoTiles tiles(3);
  EXPECT_THAT(verdict(tiles.graph, tiles.hand.program),
              HasSubstr("instruction 5 (copy_in on copy_in) reads u [3:8, 0:8], of which v has overwritten [3:4, 0:8]"));
}

TEST(CheckTakeover, WhatIsNotWrittenYetIsNotThere) {
  TwoTiles tiles;
  Operand& read = tiles.hand.program.instructions[8].reads[0];
  tiles.hand.program.instructions[7].writes[0].box = tiles.hand.program.instructions[7].reads[0].box =
      tiles.hand.program.boxes.add(rows(5, 8, 8));
  EXPECT_THAT(verdict(tiles.graph, tiles.hand.program), HasSubstr("reads v [0:8, 0:8], of which 8 elements were never written"));
  read.piece = tiles.u;
  EXPECT_NE(verdict(tiles.graph, tiles.hand.program), "");
}

TEST(CheckTakeover, EveryWaitIsNeeded) {
  const TwoTiles legal;
  for (std::size_t i = 0; i < legal.hand.program.instructions.size(); ++i)
    for (std::size_t w = 0; w < legal.hand.program.instructions[i].waits.size(); ++w) {
      Program early = legal.hand.program;
      --early.instructions[i].waits[w].count;
      EXPECT_THAT(verdict(legal.graph, early), HasSubstr("nothing makes it wait for")) << "instruction " << i << ", wait " << w;
    }
}

// A copy to v's rows that waits for nothing but its own data may run before u's are read.
TEST(CheckTakeover, OverwritingWaitsForReads) {
  const Graph graph =
      graph_of("graph g\ninput x f32[8, 8]\ninput y f32[8, 8]\na: u = relu(x)\nb: v = relu(y)\nc: z = add(u, v)\noutput z\n");
  HandProgram hand(graph);
  const PieceId x = hand.device("x", 0), y = hand.device("y", 256), made = hand.device("u", 512), other = hand.device("v", 768);
  const PieceId u = hand.piece("u", Tier::host, 0), v = hand.piece("v", Tier::host, 0);
  const PieceId back = hand.device("u", 1024), again = hand.device("v", 1280), z = hand.device("z", 1536);
  hand.program.piece(v).shares = u;
  hand.input(x);
  hand.input(y);
  const Box all = rows(0, 8, 8), upper = rows(0, 4, 8), lower = rows(4, 8, 8);
  const auto part = [&](PieceId piece, const Box& box) { return hand.program.operand(piece, all, box); };
  hand.kernel("a", {hand.whole(x)}, {hand.whole(made)});
  hand.kernel("b", {hand.whole(y)}, {hand.whole(other)});
  hand.move(Action::copy_out, {hand.whole(made)}, {hand.whole(u)}, {{Lane::compute, 1}});
  hand.move(Action::copy_in, {part(u, upper)}, {part(back, upper)}, {{Lane::copy_out, 1}});
  hand.move(Action::copy_out, {part(other, upper)}, {part(v, upper)}, {{Lane::compute, 2}, {Lane::copy_in, 1}});
  hand.move(Action::copy_in, {part(u, lower)}, {part(back, lower)});
  hand.move(Action::copy_out, {part(other, lower)}, {part(v, lower)}, {{Lane::copy_in, 2}});
  hand.move(Action::copy_in, {hand.whole(v)}, {hand.whole(again)}, {{Lane::copy_out, 3}});
  hand.kernel("c", {hand.whole(back), hand.whole(again)}, {hand.whole(z)}, {{Lane::copy_in, 3}});
  hand.output(z);
  hand.finish();
  EXPECT_EQ(verdict(graph, hand.program), "");
  // What derives waits comes to the same, whatever the lanes are.
  Program derived = hand.program;
  for (Instruction& instruction : derived.instructions) instruction.waits.clear();
  derive_waits(derived);
  EXPECT_EQ(print_program(graph, derived), print_program(graph, hand.program));
  hand.program.instructions[6].waits[0].count = 1;
  EXPECT_THAT(verdict(graph, hand.program),
              HasSubstr("instruction 6 (copy_out on copy_out) writes v, but nothing makes it wait for "
                        "instruction 5 (copy_in on copy_in)"));
}

TEST(CheckTakeover, BothAreOfOneType) {
  const Graph graph = graph_of("graph g\ninput x f32[8, 8]\na: u = relu(x)\nb: v = reshape(u) shape=[4, 16]\noutput v\n");
  HandProgram hand(graph);
  const PieceId x = hand.device("x", 0), u = hand.device("u", 256), v = hand.device("v", 256);
  hand.program.piece(v).shares = u;
  hand.input(x);
  hand.kernel("a", {hand.whole(x)}, {hand.whole(u)});
  hand.kernel("b", {hand.whole(u)}, {hand.whole(v)});
  hand.output(v);
  hand.finish();
  hand.program.piece(u).last = 1;
  hand.program.piece(v).first = 0;
  EXPECT_THAT(verdict(graph, hand.program), HasSubstr("is to take over part by part the bytes of u"));
}

// The next tile's rows are read while those of the last are still on their way out: nothing else orders the two.
TEST(TakeoverWaits, ReadsOfOtherRowsDoNotWaitForWrites) {
  TwoTiles tiles;
  for (Instruction& instruction : tiles.hand.program.instructions) instruction.waits.clear();
  derive_waits(tiles.hand.program);
  EXPECT_EQ(verdict(tiles.graph, tiles.hand.program), "");
  EXPECT_TRUE(tiles.hand.program.instructions[5].waits.empty());
}

}  // namespace
}  // namespace outsize
