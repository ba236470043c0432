#include "plan/analysis/levels.h"

#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"

namespace outsize {
namespace {

// Levels: f1 1; side 2, f2 2; f3 3; f4 4; b4 5; b3 and b3.other 6; b2 7; b1 8.
constexpr std::string_view kText = R"(graph hand
input x f32[64]
f1: a1 = relu(x)
side: s = relu(a1)
f2: a2 = relu(a1)
f3: a3 = relu(a2)
f4: a4 = relu(a3)
b4: g3 = add(a4, a3) @backward(f4)
b3: g2 = add(g3, a2) @backward(f3)
b3.other: h = relu(g3) @backward(f3)
b2: g1 = add(g2, a1) @backward(f2)
b1: g0 = add(g1, h) @backward(f1)
output g0
)";

class Levels : public testing::Test {
 protected:
  OpId op(std::string_view name) const { return graph_.find_op(name); }
  std::string name(OpId id) const { return id ? graph_.op(id).name : "none"; }
  std::string direct(std::string_view source, std::string_view target, std::int64_t lower, std::int64_t upper = 10000) const {
    return name(levels_.direct_order(op(source), op(target), lower, upper));
  }
  std::string chain(std::string_view source, std::string_view target, std::int64_t lower, std::int64_t upper = 10000) const {
    return name(levels_.chain_rule(op(source), op(target), lower, upper));
  }

  Graph graph_ = graph_of(kText);
  LeveledGraph levels_{graph_};
};

TEST_F(Levels, AreOneAboveTheHighestInput) {
  const std::vector<std::pair<const char*, int>> expected{{"f1", 1}, {"side", 2}, {"f2", 2},       {"f3", 3}, {"f4", 4},
                                                          {"b4", 5}, {"b3", 6},   {"b3.other", 6}, {"b2", 7}, {"b1", 8}};
  for (const auto& [name, level] : expected) EXPECT_EQ(levels_.level(op(name)), level) << name;
  EXPECT_TRUE(levels_.reaches(op("f1"), op("b1")));
  EXPECT_FALSE(levels_.reaches(op("side"), op("b1")));
  EXPECT_FALSE(levels_.reaches(op("b3.other"), op("b2")));
  EXPECT_FALSE(levels_.reaches(op("b2"), op("b2")));
}

TEST_F(Levels, DirectOrderGoesBackFromTheTarget) {
  EXPECT_EQ(direct("f1", "b2", 1), "b3");     // level 6, where b3.other does not lead to b2
  EXPECT_EQ(direct("f1", "b2", 2), "b4");     // 5
  EXPECT_EQ(direct("f1", "b2", 3), "f4");     // 4: a control operation may be of forward
  EXPECT_EQ(direct("f1", "b2", 5), "f2");     // 2, where `side` comes first but leads nowhere
  EXPECT_EQ(direct("f1", "b2", 6), "none");   // 1 is the source's own level
  EXPECT_EQ(direct("f1", "b2", 2, 2), "b4");  // 7 − 2 is still in range
  EXPECT_EQ(direct("f1", "b2", 3, 2), "none");
  EXPECT_EQ(direct("f1", "b1", 2), "b3");  // of b3 and b3.other the first of the graph
  EXPECT_EQ(direct("f3", "b4", 1), "f4");
  EXPECT_EQ(direct("f4", "b4", 1), "none");
}

TEST_F(Levels, ChainRuleGoesOnFromTheSource) {
  EXPECT_EQ(chain("f1", "b2", 1), "b3");    // a2 of f2, one step behind f1, is read by b3
  EXPECT_EQ(chain("f1", "b2", 2), "b4");    // a3 of f3
  EXPECT_EQ(chain("f1", "b2", 3), "b4");    // a4 of f4
  EXPECT_EQ(chain("f1", "b2", 4), "none");  // forward ends
  EXPECT_EQ(chain("f1", "b2", 1, 1), "none");
  EXPECT_EQ(chain("f1", "b2", 1, 2), "b3");
  EXPECT_EQ(chain("f2", "b3", 1), "b4");
  EXPECT_EQ(chain("f3", "b4", 1), "none");      // a4 is read by b4 itself alone
  EXPECT_EQ(chain("f1", "b3.other", 1), "b4");  // b3 does not lead there: one step further
}

}  // namespace
}  // namespace outsize
