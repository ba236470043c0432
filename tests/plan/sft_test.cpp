#include <gtest/gtest.h>

#include <string_view>

#include "plan/planners/sft_graph.h"
#include "random_stack.h"

namespace outsize {
namespace {

// Figure 7: two 3×3 convolutions and two poolings of stride 2 over 1024 rows, with their backward in gather form. Of each letter
// ('c', 'p') a forward node; then, from the last on, the gradient, and for convolutions that of the kernel.
struct Figure7 {
  TileGraph graph;
  Table<Table<bool>> divided;
  std::int32_t last_gradient = 0;  // the node that reads the gradient of the segment's result

  explicit Figure7(std::string_view kinds) {
    std::vector<std::int64_t> heights{1024};
    for (const char kind : kinds) heights.push_back(kind == 'p' ? heights.back() / 2 : heights.back());
    for (std::size_t l = 0; l < kinds.size(); ++l) {
      const auto source = static_cast<std::int32_t>(l) - 1;
      add(heights[l + 1], {input(source, heights[l], kinds[l] == 'p' ? TileWindow{0, 2, 1, 0, 0} : kHalo)});
    }
    last_gradient = static_cast<std::int32_t>(graph.size());
    std::int32_t above = TileInput::kOutside;  // the node that makes the gradient of layer l's result
    for (std::size_t l = kinds.size(); l-- > 0;) {
      const auto activation = static_cast<std::int32_t>(l) - 1;
      const auto own = static_cast<std::int32_t>(graph.size());
      if (kinds[l] == 'p') {
        add(heights[l], {input(above, heights[l + 1], {0, 1, 2, 0, 0}), input(activation, heights[l], {})});
      } else {
        add(heights[l], {input(above, heights[l + 1], kHalo)});
        add(heights[l + 1], {input(above, heights[l + 1], {}), input(activation, heights[l], kHalo)});
        graph.back().to_output = {TileNode::kReduced};
      }
      above = own;
    }
  }

 private:
  static constexpr TileWindow kHalo{0, 1, 1, -1, 1};  // f = 1 on both sides

  static TileInput input(std::int32_t source, std::int64_t height, TileWindow window) { return {source, {height}, {window}}; }
  void add(std::int64_t height, Table<TileInput> inputs) {
    graph.push_back({{height}, {0}, false, std::move(inputs)});
    divided.push_back({true});
  }
};

TEST(SftTileSize, OfFigure7) {
  // The gradient of 256 rows of the input asks for 258 after the first convolution, 129 pooled, 131 after the second, 65½ pooled.
  const Figure7 pooled_last("cpcp");
  const TileSpaces<std::int64_t> sizes = tile_sizes(pooled_last.graph, pooled_last.divided, 4);
  EXPECT_EQ(sizes.inputs[pooled_last.last_gradient][0][0], 65);
  EXPECT_EQ(sizes.iterations[3][0], 64);  // what forward makes for the next segment
  // As ranges: [256, 512) → [255, 513) → [127, 257) → [126, 258) → [63, 129).
  const TileSpaces<Interval> ranges = tile_ranges(pooled_last.graph, pooled_last.divided, 4, 1);
  EXPECT_EQ(ranges.inputs[pooled_last.last_gradient][0][0], (Interval{63, 129}));

  // With the convolution last, its kernel's gradient asks for 64 + 2 rows of what is pooled before it.
  const Figure7 convolved_last("pcpc");
  EXPECT_EQ(tile_sizes(convolved_last.graph, convolved_last.divided, 4).iterations[2][0], 66);
  EXPECT_EQ(tile_ranges(convolved_last.graph, convolved_last.divided, 4, 1).iterations[2][0], (Interval{63, 129}));
}

// Only height is divided; the last layer's node is the one leaf.
Table<Table<bool>> rows_divided(const TileGraph& graph) {
  Table<Table<bool>> divided;
  for (const TileNode& node : graph) {
    divided.emplace_back(node.iterations.size(), false);
    divided.back()[2] = true;
  }
  return divided;
}

TEST(SftTileSize, OfRandomStacksIsThatOfExactWindows) {
  std::mt19937 random(11);
  int compared = 0;
  while (compared < 3000) {
    const Stack stack = random_stack(random, 400 + static_cast<std::int64_t>(random() % 2000));
    if (stack.heights.back() < 24) continue;
    ++compared;
    const TileGraph graph = tile_graph(stack.graph, stack.ops);
    const auto tiles = static_cast<std::int64_t>(1 + random() % 7);
    const Table<Table<bool>> divided = rows_divided(graph);
    const TileSpaces<std::int64_t> sizes = tile_sizes(graph, divided, tiles);
    for (std::int64_t index = 0; index < tiles; ++index) {
      const TileSpaces<Interval> ranges = tile_ranges(graph, divided, tiles, index);
      Interval rows = ranges.iterations.back()[2];
      const std::int64_t part = (stack.heights.back() + tiles - 1) / tiles;
      ASSERT_EQ(rows, (Interval{std::min(stack.heights.back(), index * part), std::min(stack.heights.back(), (index + 1) * part)}));
      if (rows.empty()) continue;
      for (std::size_t l = stack.size(); l-- > 0;) {
        const bool full = rows.size() == sizes.iterations[l][2];
        rows = stack.window(l, rows);
        ASSERT_EQ(ranges.inputs[l][0][2], rows) << "stack " << compared << " layer " << l << " tile " << index;
        if (full && rows.lo > 0 && rows.hi < stack.heights[l]) {
          ASSERT_EQ(sizes.inputs[l][0][2], rows.size());
        }
        ASSERT_LE(rows.size(), sizes.inputs[l][0][2]);
      }
    }
  }
}

TEST(SftTileGraph, KnowsTheWindowsOfOps) {
  const Graph graph = graph_of(R"(graph ops
input x f32[4, 2, 64, 64]
param w f32[3, 2, 5, 5]
conv: a = conv2d(x, w) stride=[2, 1] padding=[2, 1, 2, 1]
pool: b = max_pool(a) kernel=[3, 3] stride=[2, 2] padding=[1, 1, 1, 1]
up: c = upsample(b) output=[32, 62]
relu: d = relu(c)
output d
)");
  const TileGraph nodes = tile_graph(
      graph, std::vector<OpId>{graph.find_op("conv"), graph.find_op("pool"), graph.find_op("up"), graph.find_op("relu")});
  const TileInput& conv = nodes[0].inputs[0];
  EXPECT_EQ(nodes[0].inputs.size(), 1);
  EXPECT_EQ(conv.source, TileInput::kOutside);
  EXPECT_EQ(nodes[0].to_output[conv.windows[1].iteration], TileNode::kReduced);  // channels are summed over
  EXPECT_EQ(conv.windows[2].iteration, 2);
  EXPECT_EQ(conv.windows[2].size(10), 9 * 2 + 5);
  EXPECT_EQ(conv.windows[2].range({4, 7}), (Interval{6, 15}));
  EXPECT_EQ(conv.windows[3].size(10), 10 + 4);
  EXPECT_EQ(nodes[1].inputs[0].windows[2].size(10), 9 * 2 + 3);
  EXPECT_EQ(nodes[2].inputs[0].source, 1);
  EXPECT_EQ(nodes[2].inputs[0].windows[2].range({4, 8}), (Interval{2, 4}));  // each row is read twice
  EXPECT_EQ(nodes[3].inputs[0].windows[1].iteration, 1);
  EXPECT_EQ(ft_dims(nodes), (std::vector<std::int32_t>{0, 2, 3}));
}

// The shortcut of a residual block skips rows, the last one too; and every window over a map of four rows ends at a border.
TEST(SftTileGraph, KnowsTheWindowsOfStridesAndOfSmallMaps) {
  const Graph graph = graph_of(R"(graph small
input x f32[2, 3, 8, 8]
param w1 f32[3, 3, 1, 1]
param w2 f32[3, 3, 3, 3]
shortcut: a = conv2d(x, w1) stride=[2, 2]
conv: b = conv2d(a, w2) padding=[1, 1, 1, 1]
output b
)");
  const TileGraph nodes = tile_graph(graph, std::vector<OpId>{graph.find_op("shortcut"), graph.find_op("conv")});
  EXPECT_EQ(nodes[0].inputs[0].windows[2].range({1, 3}), (Interval{2, 5}));
  EXPECT_EQ(nodes[1].inputs[0].windows[2].range({1, 3}), (Interval{0, 4}));
  EXPECT_EQ(nodes[1].inputs[0].windows[3].size(2), 4);
  EXPECT_EQ(ft_dims(nodes), (std::vector<std::int32_t>{0, 2, 3}));
}

// Figure 6: with an average over the image at the end, samples alone can be cut.
TEST(SftTileGraph, DimsThatCanBeCut) {
  const Graph graph = graph_of(R"(graph figure6
input x f32[4, 2, 16, 16]
param w1 f32[3, 2, 3, 3]
param w2 f32[3, 3, 3, 3]
conv1: a = conv2d(x, w1) padding=[1, 1, 1, 1]
conv2: b = conv2d(a, w2) padding=[1, 1, 1, 1]
stats: s = batch_norm_stats(b)
sum: c = add(a, b)
pool: d = max_pool(c) kernel=[2, 2] stride=[2, 2]
mean: e = adaptive_avg_pool(d) output=[1, 1]
flat: f = reshape(d) shape=[4, -1]
output e
output f
output s
)");
  const auto dims = [&](std::vector<const char*> names) {
    std::vector<OpId> ops;
    for (const char* name : names) ops.push_back(graph.find_op(name));
    return ft_dims(tile_graph(graph, ops));
  };
  EXPECT_EQ(dims({"conv1", "conv2", "stats", "sum", "pool"}), (std::vector<std::int32_t>{0, 2, 3}));
  // The mean of a whole map is a reduction as statistics are; a reshape leaves samples alone.
  EXPECT_EQ(dims({"conv1", "conv2", "sum", "pool", "mean"}), (std::vector<std::int32_t>{0, 2, 3}));
  EXPECT_EQ(dims({"conv1", "conv2", "sum", "pool", "flat"}), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(dims({"sum", "pool"}), (std::vector<std::int32_t>{0, 1, 2, 3}));
}

using Segments = std::vector<TileSegment>;

TEST(SftSegments, OfChainsEndWithTheFirstThatFits) {
  const Followers chain{{1}, {2}, {3}, {4}, {5}, {}};
  EXPECT_EQ(find_segments(chain, {false, false, false, false, false, false}), Segments{});
  EXPECT_EQ(find_segments(chain, {true, true, false, false, false, false}), (Segments{{0, 2}}));
  EXPECT_EQ(find_segments(chain, {true, false, false, true, false, false}), (Segments{{0, 1}, {3, 4}}));
  EXPECT_EQ(find_segments(chain, {false, false, false, false, false, true}), std::nullopt);  // nothing after it could be stored
}

TEST(SftSegments, HoldWhatAllPathsMeetIn) {
  // 0 → 1 → 2 → 4, 0 → 3 → 4 → 5: node 1 alone is too large, but what begins at it ends after it; node 0's paths meet in 4.
  const Followers block{{1, 3}, {2}, {4}, {4}, {5}, {}};
  EXPECT_EQ(find_segments(block, {false, true, false, false, false, false}), (Segments{{1, 2}}));
  EXPECT_EQ(find_segments(block, {true, false, false, false, false, false}), (Segments{{0, 4}}));
  EXPECT_EQ(find_segments(block, {true, false, false, false, true, false}), (Segments{{0, 5}}));
}

TEST(SftSegments, OfRandomGraphsStoreAllThatIsReadOutside) {
  std::mt19937 random(3);
  int found = 0;
  for (int round = 0; round < 5000; ++round) {
    const auto count = static_cast<std::int32_t>(2 + random() % 15);
    Followers followers(count);
    for (std::int32_t from = 0; from + 1 < count; ++from) {
      followers[from].push_back(from + 1 + static_cast<std::int32_t>(random() % 2 % static_cast<unsigned>(count - from - 1)));
      for (std::int32_t to = followers[from][0] + 1; to < count; ++to)
        if (random() % 8 == 0) followers[from].push_back(to);
    }
    Table<bool> must(count);
    for (std::int64_t n = 0; n < must.size(); ++n) must[n] = random() % 4 == 0;
    const std::optional<Segments> segments = find_segments(followers, must);
    if (!segments) continue;
    ++found;
    std::vector<std::int32_t> inside(count, -1);  // the segment that holds a node and does not store it
    std::int32_t before = -1;
    for (const TileSegment& segment : *segments) {
      EXPECT_GT(segment.first, before);
      EXPECT_TRUE(must[segment.first]);
      EXPECT_FALSE(must[segment.last]);
      for (std::int32_t n = segment.first; n < segment.last; ++n) inside[n] = segment.first;
      before = segment.last;
    }
    for (std::int32_t n = 0; n < count; ++n) {
      EXPECT_TRUE(inside[n] >= 0 || !must[n]) << "round " << round << " node " << n;
      if (inside[n] < 0) continue;
      const auto own = std::find_if(segments->begin(), segments->end(), [&](const TileSegment& s) { return s.first == inside[n]; });
      for (const std::int32_t reader : followers[n]) EXPECT_LE(reader, own->last) << "round " << round << " node " << n;
    }
  }
  EXPECT_GT(found, 500);
}

}  // namespace
}  // namespace outsize
