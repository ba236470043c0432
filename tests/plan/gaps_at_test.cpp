#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "plan/planner.h"
#include "steps.h"

namespace outsize {
namespace {

// Of the chain of Figure 4, a1 waits between f2 and b2, and a2 between f3 and b3; ops and copies take a second. Alone, each comes
// back one run before the one that reads it. Beside b3 live a2 and g3, whose bytes g2 takes over: 512 bytes of a budget of 1024,
// and with a1, which is on its way, 768. A gap of 256 bytes leaves that much, one of 512 does not: then a1 comes just before b2.
TEST(GapsAt, WhatComesBackDoesSoLaterBesideTheRunThatLacksRoom) {
  const Graph graph = graph_of(kFigure4);
  const Profile seconds = second_an_op(1);
  PlanRequest request{.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = 1024}};
  const auto made = [&] { return steps_of(graph, find_planner("vdnn-all").make(request).take()); };
  const std::string before = made();
  EXPECT_LT(before.find(">a1"), before.find("b3")) << before;
  request.gaps_at.assign(8, 0);
  request.gaps_at[5] = 256;  // b3
  EXPECT_EQ(made(), before);
  request.gaps_at[5] = 512;
  const std::string after = made();
  EXPECT_GT(after.find(">a1"), after.find("b3")) << after;
  EXPECT_LT(after.find(">a1"), after.find("b2")) << after;
  request.gaps_at.assign(8, 0);
  request.gaps_at[0] = 512;  // f1, where there is room
  EXPECT_EQ(made(), before);
}

}  // namespace
}  // namespace outsize
