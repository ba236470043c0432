#include "plan/planners/lrcnn.h"

#include <gtest/gtest.h>

#include "random_stack.h"

namespace outsize {
namespace {

RowStack rows_of(const Stack& stack) {
  RowStack rows;
  for (const std::int64_t height : stack.heights) rows.layers.push_back({.height = height, .width = 8, .channels = 1});
  for (std::size_t l = 0; l < stack.size(); ++l) {
    RowLayer& layer = rows.layers[l + 1];
    layer.kernel = stack.layers[l].kernel;
    layer.stride = stack.layers[l].stride;
    layer.padding = stack.layers[l].padding;
  }
  return rows;
}

constexpr int kStacks = 10000;

// Calls `check(stack, rows, ends)` on random stacks with random boundaries of up to six rows in the last layer.
template <class Check>
void on_random_stacks(unsigned seed, Check check) {
  std::mt19937 random(seed);
  for (int done = 0; done < kStacks;) {
    const Stack stack = random_stack(random, 20 + static_cast<std::int64_t>(random() % 200));
    const std::int64_t height = stack.heights.back();
    if (stack.size() == 0 || height < 2) continue;
    std::vector<std::int64_t> ends{height};
    for (std::uint64_t cut = random() % 6; cut-- > 0;)
      ends.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(height)));
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    check(stack, rows_of(stack), ends);
    if (testing::Test::HasFatalFailure()) return;
    ++done;
  }
}

TEST(Lrcnn, SharedRowsEndWhereExactWindowsDo) {
  on_random_stacks(1, [](const Stack& stack, const RowStack& rows, const std::vector<std::int64_t>& last) {
    const Table<std::vector<std::int64_t>> ends = shared_row_ends(rows, last);
    for (std::size_t r = 0; r < last.size(); ++r) {
      std::int64_t end = last[r];
      for (std::size_t l = stack.size(); l-- > 0;) {
        end = r + 1 == last.size() ? stack.heights[l] : stack.window(l, {0, end}).hi;
        ASSERT_EQ(ends[l][r], end) << "layer " << l << " row " << r;
      }
    }
    // (11), (13) and (14) are the heights between these ends where nothing is clipped.
    for (std::size_t l = 0; l < stack.size(); ++l) {
      const auto& [kernel, stride, padding, pools] = stack.layers[l];
      const std::vector<std::int64_t>&here = ends[l], &next = ends[l + 1];
      const auto free = [&](std::size_t r) {
        const std::int64_t end = (next[r] - 1) * stride + kernel - padding;
        return end >= 0 && end <= stack.heights[l];
      };
      const std::size_t n = last.size() - 1;
      if (n == 0) continue;
      if (free(0)) {
        ASSERT_EQ(here[0], (next[0] - 1) * stride + kernel - padding);
      }
      for (std::size_t r = 1; r < n; ++r)
        if (free(r) && free(r - 1)) {
          ASSERT_EQ(here[r] - here[r - 1], stride * (next[r] - next[r - 1]));
        }
      if (free(n - 1)) {
        ASSERT_EQ(here[n] - here[n - 1],
                  stride * (next[n] - next[n - 1]) - padding + (stack.heights[l] + 2 * padding - kernel) % stride);
      }
    }
  });
}

TEST(Lrcnn, RowsSharedAreTheKernelLessTheStride) {
  int compared = 0;
  on_random_stacks(2, [&](const Stack& stack, const RowStack& rows, const std::vector<std::int64_t>& last) {
    const Table<std::vector<std::int64_t>> ends = shared_row_ends(rows, last);
    for (std::size_t l = 0; l < stack.size(); ++l)
      for (std::size_t r = 0; r + 1 < last.size(); ++r) {
        const std::int64_t from = ends[l + 1][r], to = ends[l + 1][r + 1];
        if (from <= 0 || from >= to) continue;
        const Interval next = stack.window(l, {from, to});
        const std::int64_t begin = from * stack.layers[l].stride - stack.layers[l].padding;
        if (begin < 0 || ends[l][r] == stack.heights[l]) continue;  // clipped
        ASSERT_EQ(next.lo, begin);
        ASSERT_EQ(ends[l][r] - next.lo, stack.layers[l].kernel - stack.layers[l].stride);
        ++compared;
      }
  });
  EXPECT_GT(compared, kStacks);
}

TEST(Lrcnn, OverlapsAreThoseOfExactWindows) {
  int compared = 0;
  on_random_stacks(3, [&](const Stack& stack, const RowStack& rows, const std::vector<std::int64_t>& last) {
    const Table<std::int64_t> both = overlapped_rows(rows), above = overlapped_above(rows), below = overlapped_below(rows);
    for (std::size_t l = 0; l <= stack.size(); ++l) ASSERT_EQ(both[l], above[l] + below[l]);
    for (std::size_t r = 0; r + 1 < last.size(); ++r) {
      // The row above the boundary and the one below it.
      Interval upper{r == 0 ? 0 : last[r - 1], last[r]}, lower{last[r], last[r + 1]};
      std::int64_t boundary = last[r];
      for (std::size_t l = stack.size(); l-- > 0;) {
        upper = stack.window(l, upper);
        lower = stack.window(l, lower);
        boundary *= stack.layers[l].stride;
        if (upper.hi == stack.heights[l] || lower.lo == 0) break;  // clipped from here on
        ASSERT_EQ(upper.hi - boundary, below[l]) << "layer " << l << " row " << r;
        ASSERT_EQ(boundary - lower.lo, above[l]) << "layer " << l << " row " << r;
        ASSERT_EQ(upper.hi - lower.lo, both[l]) << "layer " << l << " row " << r;
        ++compared;
      }
    }
  });
  EXPECT_GT(compared, kStacks);
}

// Two 3×3 convolutions and a pooling of 2, twice: rows of the four layers of Figure 7, by hand.
//   o⁴ = 0, o³ = (0 − 1)·2 + 2 = 0, o² = (0 − 1) + 3 = 2, o¹ = (2 − 1)·2 + 2 = 4, o⁰ = (4 − 1) + 3 = 6
RowStack figure() {
  return {2,
          {{.height = 64, .width = 64, .channels = 3},
           {.height = 64, .width = 64, .channels = 8, .kernel = 3, .stride = 1, .padding = 1},
           {.height = 32, .width = 32, .channels = 8, .kernel = 2, .stride = 2},
           {.height = 32, .width = 32, .channels = 16, .kernel = 3, .stride = 1, .padding = 1},
           {.height = 16, .width = 16, .channels = 16, .kernel = 2, .stride = 2}}};
}

TEST(Lrcnn, WorkedValues) {
  const RowStack stack = figure();
  EXPECT_EQ(stack.depth(), 4);
  EXPECT_EQ(overlapped_rows(stack), (Table<std::int64_t>{6, 4, 2, 0, 0}));
  EXPECT_EQ(overlapped_above(stack), (Table<std::int64_t>{3, 2, 1, 0, 0}));
  EXPECT_EQ(overlapped_below(stack), (Table<std::int64_t>{3, 2, 1, 0, 0}));
  // Two rows of 8: z³ 16, 32; z² (16 − 1) + 3 − 1 = 17, 32; z¹ 34, 64; z⁰ (34 − 1) + 3 − 1 = 35, 64.
  EXPECT_EQ(shared_row_ends(stack, {8, 16}), (Table<std::vector<std::int64_t>>{{35, 64}, {34, 64}, {17, 32}, {16, 32}, {8, 16}}));
  EXPECT_EQ(even_row_ends(10, 3), (std::vector<std::int64_t>{3, 6, 10}));

  // ϱ: 2·64·64·8 = 65536, 2·32·32·8 = 16384, 2·32·32·16 = 32768, 2·16·16·16 = 8192.
  EXPECT_EQ(elements_of(stack, 1), 65536);
  EXPECT_EQ(elements_of(stack, 4), 8192);
  EXPECT_EQ(forward_elements(stack, 2), (65536 + 16384) / 2 + 8192);
  EXPECT_EQ(backward_elements(stack, 2), (65536 + 16384 + 32768) / 2 + 8192);
  // 2PS, two rows: the tallest 34, 17, 16 of z¹, z², z³; shared 0 (pooling), 2 (convolution), 0.
  EXPECT_EQ(shared_elements(stack, 2), 2 * (64 * 8 * 34 + 32 * 8 * (17 + 2) + 32 * 16 * 16) + 8192);
  // OverL: 4 rows of z¹ and 2 of z² are there twice.
  EXPECT_EQ(overlapped_elements(stack, 2), (65536 + 16384 + 32768 + 2 * (4 * 64 * 8 + 2 * 32 * 8)) / 2 + 8192);
  // Backward holds more, so it has at least as many rows: 4 bytes an element, in 200 KiB.
  const auto forward = [&](std::int64_t rows) { return forward_elements(stack, rows); };
  const auto backward = [&](std::int64_t rows) { return backward_elements(stack, rows); };
  EXPECT_EQ(fewest_rows(forward, 16, 200 * 1024), 2);   // 49152 elements, 192 KiB
  EXPECT_EQ(fewest_rows(backward, 16, 200 * 1024), 3);  // 46421 elements; two rows have 65536
  EXPECT_EQ(fewest_rows(backward, 16, 32 * 1024), 0);   // z⁴ alone has 32 KiB
  EXPECT_EQ(most_overlapped_rows(stack), 64 / 6);
  // (N − 1)·2 shared rows of z² against its tallest row. N = 4: z⁴ ends at 4, 8, 12, 16, z² at 9, 17, 25, 32: 6 against 9.
  // N = 5: z⁴ ends at 3, 6, 9, 12, 16, z² at 7, 13, 19, 25, 32: 8 against 7.
  EXPECT_EQ(most_shared_rows(stack), 4);
}

// What every row of OverL holds of a layer, summed over rows, is the layer and N − 1 times the overlap.
TEST(Lrcnn, OverlappedMemoryIsThatOfExactWindows) {
  int compared = 0;
  on_random_stacks(4, [&](const Stack& stack, const RowStack& rows, const std::vector<std::int64_t>& last) {
    const Table<std::int64_t> both = overlapped_rows(rows);
    std::vector<Interval> windows;
    for (std::size_t r = 0; r < last.size(); ++r) windows.push_back({r == 0 ? 0 : last[r - 1], last[r]});
    for (std::size_t l = stack.size(); l-- > 0;) {
      std::int64_t held = 0;
      for (std::size_t r = 0; r < last.size(); ++r) {
        windows[r] = stack.window(l, windows[r]);
        const bool first = r == 0, final = r + 1 == last.size();
        if ((!first && windows[r].lo == 0) || (!final && windows[r].hi == stack.heights[l])) return;  // clipped inside
        held += windows[r].size();
      }
      const std::int64_t read = windows.back().hi - windows.front().lo;
      ASSERT_EQ(held, read + static_cast<std::int64_t>(last.size() - 1) * both[l]) << "layer " << l;
      ++compared;
    }
  });
  EXPECT_GT(compared, kStacks);
}

TEST(Lrcnn, StackOfGroups) {
  const Graph graph = graph_of(R"(graph net
input x f32[2, 3, 64, 48]
param w1 f32[8, 3, 7, 7]
param w2 f32[8, 8, 3, 3]
param w3 f32[8, 8, 3, 3]
conv1: a = conv2d(x, w1) stride=[2, 2] padding=[3, 3, 3, 3]
conv2: b = conv2d(a, w2) padding=[1, 1, 1, 1]
conv3: c = conv2d(b, w3) padding=[1, 1, 1, 1]
sum: d = add(a, c)
pool: e = max_pool(d) kernel=[2, 2] stride=[2, 2]
relu: f = relu(e)
output f
)");
  const std::vector<Group> groups = groups_of(graph);
  const RowStack stack = row_stack(graph, groups);
  EXPECT_EQ(stack.batch, 2);
  ASSERT_EQ(stack.depth(), 3);  // the last group leads nowhere
  EXPECT_EQ(stack.layers[0].width, 48);
  EXPECT_EQ(stack.layers[1].kernel, 7);
  EXPECT_EQ(stack.layers[1].stride, 2);
  EXPECT_EQ(stack.layers[1].padding, 3);
  EXPECT_EQ(stack.layers[2].kernel, 5);  // of both convolutions; the sum reads within
  EXPECT_EQ(stack.layers[2].padding, 2);
  EXPECT_EQ(stack.layers[3].kernel, 2);
  EXPECT_EQ(stack.layers[3].stride, 2);
  EXPECT_EQ(stack.layers[3].height, 16);
}

}  // namespace
}  // namespace outsize
