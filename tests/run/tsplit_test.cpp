// TSPLIT's planner on networks: what it splits, and that it trains as `keep` does but for rounding.
#include <gtest/gtest.h>

#include <algorithm>

#include "../trained.h"
#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/analysis/order.h"
#include "search/prepare.h"

namespace outsize {
namespace {

StepGraph step_of(const std::string& name, ModelOptions options) {
  register_ops();
  return make_training_graph(build_model(name, options), {});
}

TEST(DepthFirst, RunsEveryOpAfterWhatItReads) {
  for (const char* name : {"resnet18", "densenet121", "inception_v4", "unet2d", "gpt2"}) {
    ModelOptions options{.batch = 2, .classes = 10, .width = 0.125};
    if (std::string_view(name) == "gpt2")
      options.sequence = 128;
    else
      options.image_height = options.image_width = 128;
    const Graph graph = step_of(name, options).graph;
    std::vector<bool> made(static_cast<std::size_t>(graph.value_count()), false);
    Phase phase = Phase::forward;
    for (OpId id : depth_first_order(graph)) {
      const Op& op = graph.op(id);
      EXPECT_GE(op.phase, phase) << op.name;
      phase = op.phase;
      for (ValueId input : op.inputs)
        EXPECT_TRUE(!graph.value(input).producer || made[static_cast<std::size_t>(input.index)]) << op.name;
      for (ValueId output : op.outputs) made[static_cast<std::size_t>(output.index)] = true;
    }
  }
}

Trained three_steps(const StepGraph& step, const Prepared& prepared, Backend& backend) {
  Trainer trainer({step, prepared}, backend, 3);
  Trained trained = train(trainer, 3);
  EXPECT_EQ(trainer.measured_peak_bytes(), prepared.program.peak_bytes.device);
  return trained;
}

class TsplitSteps : public testing::Test {
 protected:
  Prepared prepare_by(const std::string& planner, std::int64_t budget) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = budget;
    return prepare(step_.graph, *backend_, profile_, options).take();
  }

  // What three steps of a plan come to; the measured peak is the predicted one.
  Trained train(const Prepared& prepared) const { return three_steps(step_, prepared, *backend_); }

  StepGraph step_ = step_of("vgg16-features", {.batch = 8, .image_height = 128, .image_width = 128, .width = 0.125});
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 2);
  Profile profile_{find_device("cpu"), {}};
};

// The second convolution's gradients and what they are made of do not fit as wholes.
TEST_F(TsplitSteps, SplitsWhereWholeValuesDoNotFit) {
  const std::int64_t whole = prepare_by("keep", kNoLimit).program.peak_bytes.device;
  const std::int64_t budget = whole / 2;
  EXPECT_THROW(prepare_by("tsplit:split=false", budget), BudgetError);
  const Prepared split = prepare_by("tsplit", budget);
  EXPECT_FALSE(split.plan.passes.empty());
  EXPECT_LE(split.program.peak_bytes.device, budget);
  // Fewer pieces gain less.
  EXPECT_LE(prepare_by("tsplit", whole / 3).program.peak_bytes.device, whole / 3);
  EXPECT_THROW(prepare_by("tsplit:pieces=2", whole / 3), BudgetError);
  // Where whole values will do, nothing is split.
  EXPECT_TRUE(prepare_by("tsplit", whole).plan.passes.empty());
  EXPECT_FALSE(rounds(step_.graph, prepare_by("tsplit", whole).plan));
}

// In pieces but for rounding; with whole values that leave or are made again, in every bit.
TEST_F(TsplitSteps, TrainAsKeepDoes) {
  const Prepared keep = prepare_by("keep", kNoLimit);
  const std::int64_t whole = keep.program.peak_bytes.device;
  const Trained expected = train(keep);
  const Rounding rounding;
  for (const std::int64_t budget : {whole / 2, whole / 3}) {
    const Prepared split = prepare_by("tsplit", budget);
    EXPECT_TRUE(rounds(step_.graph, split.plan));
    expect_same(train(split), expected, &rounding, fmt::format("vgg16-features in {} bytes", budget));
  }
  const Prepared moved = prepare_by("tsplit:split=false", whole * 3 / 4);
  EXPECT_FALSE(rounds(step_.graph, moved.plan));
  EXPECT_LE(moved.program.peak_bytes.device, whole * 3 / 4);
  expect_same(train(moved), expected, nullptr, "vgg16-features, not split");
}

// What one run in pieces makes and the next reads goes from one to the other within a piece.
TEST_F(TsplitSteps, JoinsRunsThatFollowEachOther) {
  const Prepared split = prepare_by("tsplit", prepare_by("keep", kNoLimit).program.peak_bytes.device / 3);
  EXPECT_TRUE(std::ranges::any_of(split.plan.passes, [](const Pass& pass) { return pass.ops.size() > 1; }));
}

// One sample has nothing but its tokens to be split along.
TEST(TsplitTokens, SplitsOneSequence) {
  const StepGraph step = step_of("gpt2", {.batch = 1, .sequence = 512, .classes = 4096, .width = 1.0 / 12});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  PrepareOptions options;
  options.planner = "keep";
  const Prepared keep = prepare(step.graph, *backend, profile, options).take();
  options.budgets.device = keep.program.peak_bytes.device * 2 / 5;
  options.planner = "tsplit:split=false";
  EXPECT_THROW(prepare(step.graph, *backend, profile, options).take(), BudgetError);
  options.planner = "tsplit";
  const Prepared split = prepare(step.graph, *backend, profile, options).take();
  EXPECT_LE(split.program.peak_bytes.device, options.budgets.device);
  ASSERT_FALSE(split.plan.passes.empty());
  for (const Pass& pass : split.plan.passes) EXPECT_FALSE(pass.cuts.at(1).empty()) << pass.name;
  const Rounding rounding;
  expect_same(three_steps(step, split, *backend), three_steps(step, keep, *backend), &rounding, "gpt2");
}

// Where one batch fits, so does a smaller one, whatever is decided on the way.
TEST(TsplitBatches, FitFromTheSmallestOn) {
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("titan-rtx-24"), {}};
  PrepareOptions options;
  options.planner = "tsplit";
  options.budgets.device = std::int64_t{24} << 30;
  for (const std::int64_t batch : {300, 870, 1160, 1740, 2320}) {
    const StepGraph step = step_of("vgg16", {.batch = batch});
    EXPECT_LE(prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device, options.budgets.device) << batch;
  }
}

}  // namespace
}  // namespace outsize
