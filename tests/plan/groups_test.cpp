#include "plan/analysis/groups.h"

#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"

namespace outsize {
namespace {

TEST(Groups, WhatHasBranchesInsideIsOne) {
  const Graph graph = graph_of(R"(graph block
input x f32[64]
f1: a1 = relu(x)
f2: a2 = relu(a1)
f3: a3 = relu(a1)
f4: a4 = add(a2, a3)
f5: a5 = relu(a4)
b5: g4 = add(a5, a4) @backward(f5)
b4: g3 = relu(g4) @backward(f4)
b3: g2 = add(g3, a3) @backward(f3)
b2: g1 = add(g2, a1) @backward(f2)
b1: g0 = add(g1, x) @backward(f1)
output g0
)");
  const auto text = [&](const Group& group) {
    std::string made = group.input ? graph.value(group.input).name : "-";
    for (OpId id : group.forward) made += " " + graph.op(id).name;
    for (OpId id : group.backward) made += " " + graph.op(id).name;
    made += " saves";
    for (ValueId id : group.saved) made += " " + graph.value(id).name;
    return made + " to " + (group.output ? graph.value(group.output).name : "-");
  };
  std::vector<std::string> made;
  for (const Group& group : groups_of(graph)) made.push_back(text(group));
  // Backward does not read a2; it does read what leads out.
  EXPECT_EQ(made, (std::vector<std::string>{"x f1 b1 saves a1 to a1", "a1 f2 f3 f4 b4 b3 b2 saves a3 a4 to a4",
                                            "a4 f5 b5 saves a5 to -"}));
}

}  // namespace
}  // namespace outsize
