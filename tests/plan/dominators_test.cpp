#include "plan/analysis/dominators.h"

#include <gtest/gtest.h>

#include <random>

#include "../graph/graph_test_support.h"

namespace outsize {
namespace {

// Which nodes a walk from `from` reaches without stepping on `without`.
std::vector<bool> reached(const Followers& followers, std::int32_t from, std::int32_t without) {
  std::vector<bool> found(followers.size(), false);
  if (from == without) return found;
  std::vector<std::int32_t> open{from};
  found[from] = true;
  while (!open.empty()) {
    const std::int32_t node = open.back();
    open.pop_back();
    for (const std::int32_t next : followers[node])
      if (next != without && !found[next]) {
        found[next] = true;
        open.push_back(next);
      }
  }
  return found;
}

// By the definition: `by` dominates `node` if no walk from an entry reaches it without `by`.
bool dominates(const Followers& followers, std::int32_t by, std::int32_t node) {
  std::vector<bool> entered(followers.size(), false);
  for (const std::vector<std::int32_t>& next : followers)
    for (const std::int32_t to : next) entered[to] = true;
  for (std::int32_t entry = 0; entry < static_cast<std::int32_t>(followers.size()); ++entry)
    if (!entered[entry] && reached(followers, entry, by)[node]) return false;
  return true;
}

bool post_dominates(const Followers& followers, std::int32_t by, std::int32_t node) {
  const std::vector<bool> found = reached(followers, node, by);
  for (std::int64_t end = 0; end < followers.size(); ++end)
    if (followers[end].empty() && found[end]) return false;
  return true;
}

TEST(Dominators, OfRandomGraphsAreThoseOfTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const auto count = static_cast<std::int32_t>(1 + random() % 14);
    Followers followers(count);
    const unsigned density = 2 + static_cast<unsigned>(random() % 5);
    for (std::int32_t from = 0; from < count; ++from)
      for (std::int32_t to = from + 1; to < count; ++to)
        if (random() % density == 0 || (to == from + 1 && random() % 4 != 0)) followers[from].push_back(to);
    const Table<std::int32_t> before = immediate_dominators(followers);
    const Table<std::int32_t> after = immediate_post_dominators(followers);
    for (std::int32_t node = 0; node < count; ++node) {
      std::int32_t nearest = node - 1;
      while (nearest >= 0 && !dominates(followers, nearest, node)) --nearest;
      EXPECT_EQ(before[node], nearest) << "round " << round << " node " << node;
      nearest = node + 1;
      while (nearest < count && !post_dominates(followers, nearest, node)) ++nearest;
      EXPECT_EQ(after[node], nearest) << "round " << round << " node " << node;
    }
  }
}

// A residual block: both branches meet in `sum`; nothing but the exit follows `side` and `last`.
TEST(Dominators, OfForwardOps) {
  const Graph graph = graph_of(R"(graph block
input x f32[4]
a: a = relu(x)
b: b = relu(a)
c: c = relu(b)
sum: s = add(a, c)
side: t = relu(s)
last: y = relu(s)
back: g = add(y, c) @backward(c)
output y
)");
  const ForwardOps forward = forward_ops(graph);
  ASSERT_EQ(forward.ops.size(), 6);
  EXPECT_EQ(forward.followers, (Followers{{1, 3}, {2}, {3}, {4, 5}, {}, {}}));
  EXPECT_EQ(immediate_dominators(forward.followers), (Table<std::int32_t>{-1, 0, 1, 0, 3, 3}));
  EXPECT_EQ(immediate_post_dominators(forward.followers), (Table<std::int32_t>{3, 2, 3, 6, 6, 6}));
}

}  // namespace
}  // namespace outsize
