// Recomputation: what is made again, and for how much memory.
#include "plan/swap/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/opdef.h"
#include "graph/step_graph.h"
#include "graph/storage.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/reckon/lives.h"
#include "search/prepare.h"

namespace outsize {
namespace {

class Recomputed : public testing::TestWithParam<const char*> {
 protected:
  static StepGraph step_of(const std::string& name) {
    register_ops();
    ModelOptions options{.batch = 4, .classes = 10, .width = 0.125};
    if (name == "gpt2")
      options.sequence = 64;
    else
      options.image_height = options.image_width = 64;
    return make_training_graph(build_model(name, options), {});
  }

  Prepared prepare_by(std::string_view planner, std::int64_t budget) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = budget;
    return prepare(step_.graph, *backend_, profile_, options).take();
  }

  StepGraph step_ = step_of(GetParam());
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 2);
  Profile profile_{find_device("cpu"), {}, {}};
};

TEST_P(Recomputed, ACacheIsBetweenHoldingAllAndHoldingNothing) {
  const Graph& graph = step_.graph;
  const PlanRequest request{.graph = graph, .profile = profile_, .storage = backend_->storage()};
  const OpCosts costs = costs_of(request);
  // Everything that forward makes.
  const IdVector<ValueId, bool> dropped(graph.value_count(), true);
  RecomputeCache cache;
  std::int64_t all = 0;
  for (const Value& value : graph.values()) {
    const std::int64_t bytes = stored_bytes(request.storage, value.type, value.type.shape);
    cache.bytes.push_back(bytes);
    all += bytes;
  }
  const auto peak = [&](const Runs& runs) {
    const std::vector<std::int64_t> bytes = lives_of(request, costs, runs).bytes();
    return *std::max_element(bytes.begin(), bytes.end());
  };
  const auto cached = [&](std::int64_t capacity) {
    cache.capacity = capacity;
    return with_recomputation(graph, dropped, Again::cached, cache);
  };
  const Runs held = with_recomputation(graph, dropped, Again::held), remade = with_recomputation(graph, dropped, Again::remade);
  EXPECT_EQ(cached(0), remade);
  EXPECT_LT(held.size(), remade.size());
  EXPECT_GT(peak(held), peak(remade));
  int between = 0;
  for (const int parts : {1, 4, 16, 64, 256}) {
    const Runs runs = cached(all / parts);
    EXPECT_LE(held.size(), runs.size()) << parts;
    EXPECT_GE(remade.size(), runs.size()) << parts;
    EXPECT_LE(peak(runs), peak(remade) + all / parts) << parts;
    between += held.size() < runs.size() && runs.size() < remade.size();
  }
  EXPECT_GT(between, 0);
}

// Two segments make half of forward again, more segments more: a tenth less memory takes less than that.
// Where branches part and join, what is made again for each reader is twice as much with every block: 2^30 runs here.
TEST(Recomputation, HasABound) {
  register_ops();
  std::string text = "graph blocks\ninput x f32[4, 8]\ninput target f32[4, 8]\nparam w f32[8, 8] init=normal:0.1\n";
  text += "first: v0 = linear(x, w)\n";
  for (int k = 0; k < 30; ++k)
    text += fmt::format("s{0}: a{0} = sigmoid(v{0})\nt{0}: b{0} = tanh(v{0})\nj{0}: v{1} = mul(a{0}, b{0})\n", k, k + 1);
  text += "loss: loss = mean_squared_error(v30, target)\noutput loss\n";
  const StepGraph step = make_training_graph(parse_graph(text, "blocks"), {});
  const IdVector<ValueId, bool> dropped(step.graph.value_count(), true);
  constexpr std::int64_t kMost = 1000;
  EXPECT_TRUE(with_recomputation(step.graph, dropped, Again::remade, {}, {}, kMost).empty());
  // Held, each of the 92 results of forward is made again once at the most.
  const Runs held = with_recomputation(step.graph, dropped, Again::held, {}, {}, kMost);
  EXPECT_GE(held.size(), step.graph.op_count());
  EXPECT_LE(held.size(), step.graph.op_count() + 92);
}

TEST_P(Recomputed, CheckpointsMakeNoMoreAgainThanTheyMust) {
  const Prepared keep = prepare_by("keep", kNoLimit);
  double forward = 0;
  for (const Op& op : step_.graph.ops())
    if (op.phase == Phase::forward) forward += profile_.seconds_of(whole_call(step_.graph, op));
  const Prepared checkpoint = prepare_by("checkpoint", keep.program.peak_bytes.device * 9 / 10);
  EXPECT_GT(figures_of(step_.graph, checkpoint).recomputed_ops, 0);
  EXPECT_LT(checkpoint.predicted.seconds, keep.predicted.seconds + 0.35 * forward);
}

INSTANTIATE_TEST_SUITE_P(Models, Recomputed, testing::Values("resnet18", "densenet121", "gpt2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace outsize
