#include <gtest/gtest.h>

#include "../graph/graph_test_support.h"
#include "graph/step_graph.h"
#include "plan/analysis/order.h"
#include "plan/planners/planners.h"
#include "plan/swap/absences.h"
#include "plan/swap/residence.h"
#include "plan/tiling/large_values.h"
#include "steps.h"

namespace outsize {
namespace {

constexpr std::int64_t kBytes = 256;

struct Chosen {
  std::string text;  // "a1(1,6)": it is away between those runs
  Absences absences;
};

Chosen absences_of(const Graph& graph, const std::vector<std::string>& away, std::int64_t limit) {
  const Profile seconds = second_an_op(1);
  const PlanRequest request{.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = limit}};
  SpillChoice choice{eager_order(graph)};
  choice.away.assign(graph.value_count(), false);
  for (const std::string& name : away) choice.away[graph.find_value(name)] = true;
  const Lives lives = lives_of(request, costs_of(request), choice.runs);
  Chosen chosen;
  chosen.absences = choose_absences(request, lives, choice, limit);
  for (const Swap& swap : choice.swaps)
    chosen.text += fmt::format("{}({},{})", graph.value(lives.all[swap.life].value).name, swap.after, swap.before);
  for (const auto& [value, run] : choice.stays) chosen.text += fmt::format("{} until {}", graph.value(value).name, run);
  return chosen;
}

// Runs 0 to 7. f4 (3) has a1 to a4 there, of which a1 is used again last, by b2 (6): it leaves after f2 (1).
TEST(Absences, WhatIsUsedAgainLastLeaves) {
  const Graph graph = graph_of(kFigure4);
  const Chosen chosen = absences_of(graph, {}, 3 * kBytes);
  EXPECT_EQ(chosen.text, "a1(1,6)");
  EXPECT_EQ(chosen.absences.needed, 3 * kBytes);
  EXPECT_EQ(chosen.absences.out_bytes, kBytes);
  EXPECT_EQ(chosen.absences.in_bytes, kBytes);
}

// With two there, a1 must leave for f3, a2 for f4, and a2 again for b2, which has g1 and a1; what has left once is not copied out
// again.
TEST(Absences, AValueLeavesAsOftenAsItMust) {
  const Graph graph = graph_of(kFigure4);
  const Chosen chosen = absences_of(graph, {}, 2 * kBytes);
  EXPECT_EQ(chosen.text, "a1(1,6)a2(2,5)a2(5,7)");
  EXPECT_EQ(chosen.absences.needed, 2 * kBytes);
  EXPECT_EQ(chosen.absences.out_bytes, 2 * kBytes);
  EXPECT_EQ(chosen.absences.in_bytes, 3 * kBytes);
}

// Below what one op takes nothing helps: f2 reads a1 and makes a2.
TEST(Absences, SaysWhatIsNeeded) {
  const Absences absences = absences_of(graph_of(kFigure4), {}, kBytes).absences;
  EXPECT_EQ(absences.needed, 2 * kBytes);
}

// Weights of 512 bytes that live elsewhere, read by runs 0 and 3, and 1 and 2. All there takes 512 (a1, then a2 in its place) and
// 2 · 512 for the weights in run 1, and 256 for x, 512 for a1 and w1 in run 0: with 1280, w1 comes twice and w2 once.
TEST(Absences, AWeightComesAgainWhereItsPlaceIsWanted) {
  const Graph graph = graph_of(R"(graph weights
input x f32[1]
param w1 f32[128]
param w2 f32[128]
f1: a1 = mul(x, w1)
f2: a2 = mul(a1, w2)
b2: g2 = mul(a2, w2) @backward(f2)
b1: g1 = mul(g2, w1) @backward(f1)
output g1
)");
  const Chosen roomy = absences_of(graph, {"w1", "w2"}, 1536);
  EXPECT_EQ(roomy.text, "w1 until 3");
  EXPECT_EQ(roomy.absences.in_bytes, 2 * 512);
  const Chosen tight = absences_of(graph, {"w1", "w2"}, 1280);
  EXPECT_EQ(tight.text, "");
  EXPECT_EQ(tight.absences.in_bytes, 3 * 512);
  EXPECT_EQ(tight.absences.out_bytes, 0);
  EXPECT_EQ(tight.absences.needed, 1280);
}

StepGraph two_layers(std::int64_t classes) {
  return make_training_graph(graph_of(fmt::format(R"(graph layers
input x f32[8, 64]
input labels i32[8]
param fc1 f32[64, 64] init=normal:0.1
param fc2 f32[{}, 64] init=normal:0.1
one: a = linear(x, fc1)
two: logits = linear(a, fc2)
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
                                                  classes)),
                             {.optimizer = Optimizer::adamw});
}

// fc1 is read first and updated last: with room for half of what both updates take it stays, and fc2 and its state are elsewhere.
TEST(Residents, WhatIsUpdatedLastStays) {
  const StepGraph step = two_layers(64);
  const Graph& graph = step.graph;
  const Profile seconds = second_an_op(1);
  const std::int64_t weight = 64 * 64 * 4;
  PlanRequest request{.graph = graph, .profile = seconds, .storage = {}, .budgets = {.device = 6 * weight}};
  const auto away = [&](const Residence& residence, SpillChoice& choice) {
    choice.runs = eager_order(graph);
    const Residents residents(request);
    EXPECT_EQ(residents.bytes(), 6 * weight);
    residents.settle(residence, costs_of(request), choice);
    std::string names;
    for (std::int64_t v = 0; v < graph.value_count(); ++v)
      if (choice.away[ValueId(v)]) names += graph.value(ValueId(v)).name + " ";
    return names;
  };
  SpillChoice choice;
  EXPECT_EQ(away({Residence::kParts / 2, 0, 0}, choice), "fc2 fc2.adam_m fc2.adam_v ");
  EXPECT_TRUE(choice.on_host[graph.find_op("fc2.adam")]);
  EXPECT_FALSE(choice.on_host[graph.find_op("fc1.adam")]);
  EXPECT_EQ(away({Residence::kParts / 2, Residence::kParts, 0}, choice), "fc2.adam_m fc2.adam_v ");
  EXPECT_FALSE(choice.on_host[graph.find_op("fc2.adam")]);
  EXPECT_EQ(away({Residence::kParts, 0, 0}, choice), "");
  // Where there is no host memory, the device updates.
  request.budgets.host = 0;
  request.budgets.disk = kNoLimit;
  EXPECT_EQ(away({Residence::kParts / 2, 0, 0}, choice), "fc2 fc2.adam_m fc2.adam_v ");
  EXPECT_TRUE(choice.on_host.empty());
}

// Logits, loss and their gradients are one run, under the last of them; what is there beside it, the count of labels, runs before.
TEST(LargeValues, LogitsWithTheirLossAreOneRun) {
  const StepGraph step = two_layers(4096);
  const Graph& graph = step.graph;
  const Profile seconds = second_an_op(1);
  const PlanRequest request{.graph = graph, .profile = seconds, .storage = {}};
  const std::optional<LargeValue> found = find_large_value(request, eager_order(graph), 8 * 4096 * 4);
  ASSERT_TRUE(found);
  EXPECT_EQ(graph.value(found->value).name, "logits");
  std::string names;
  for (OpId op : found->ops) names += graph.op(op).name + " ";
  EXPECT_EQ(names, "two loss loss.grad two.grad_data two.grad_weight ");
  EXPECT_EQ(found->dims, std::vector<int>{0});
  EXPECT_EQ(found->counts, std::vector<std::int64_t>{8});
  Runs runs;
  for (OpId op : found->order) runs.push_back(op);
  const std::optional<Runs> joined = joined_runs(graph, runs, *found);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->size(), runs.size() - 4);
  EXPECT_FALSE(find_large_value(request, eager_order(graph), 8 * 4096 * 4 + 1));
}

}  // namespace
}  // namespace outsize
