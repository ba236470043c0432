// Whole networks run tile by tile, all that can be cut of them: the results are those of whole values.
#include "plan/tiling/regions.h"

#include <gtest/gtest.h>

#include <optional>

#include "../step_runs.h"
#include "cut_everything.h"
#include "graph/opdef.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/planner.h"

namespace outsize {
namespace {

// Compares a step of the zoo's network, all that can be cut so cut into tiles, with that on whole values; without `along`, as
// suits the network.
void expect_same_in_tiles(const std::string& name, std::optional<Cut> along) {
  register_ops();
  ModelOptions model{.batch = 2, .classes = 4, .width = 0.125, .dtype = DType::f64};
  model.image_height = name == "inception_v3" ? 299 : 48;
  model.image_width = name == "inception_v3" ? 299 : 32;
  if (name == "gpt2" || name == "bert-base") model.image_height = model.image_width = 0, model.sequence = 12;
  if (name == "unet3d") model.image_depth = model.image_height = model.image_width = 16;
  const StepGraph training = make_training_graph(build_model(name, model), {.gradients = true});
  const Graph& graph = training.graph;
  const std::unique_ptr<Backend> backend = make_backend("reference", 2);
  const Profile profile{find_device("cpu"), {}};
  const Outcome kept =
      train(training, find_planner("keep").make({graph, profile, backend->storage()}).take(), *backend, true, 0, 1);

  const Outcome tiled =
      train(training, cut_everything(graph, Form::gathered, along.value_or(cut_of(graph))), *backend, true, 256, 1);
  expect_close(graph, tiled, kept, 1e-9);
}

std::string test_name(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// The weight of a transposed convolution takes its tiles from the convolution's input, which the convolution reads too.
TEST(RegionsByHand, FindADriverForATransposedConvolution) {
  register_ops();
  const StepGraph training = make_training_graph(parse_graph(R"(
graph up
input x f64[2, 3, 4, 3]
input target f64[2, 2, 8, 6]
param up.weight f64[3, 2, 2, 2] init=normal:0.5
up: y = conv_transpose2d(x, up.weight) stride=[2, 2]
act: a = sigmoid(y)
loss: loss = mean_squared_error(a, target)
output loss
)",
                                                             "up.graph"),
                                                 {});
  const Graph& graph = training.graph;
  const std::int64_t values = graph.value_count();
  Tiling tiling{{}, IdVector<ValueId, bool>(values), IdVector<ValueId, Stored>(values, Stored::never)};
  for (std::int64_t op = 0; op < graph.op_count(); ++op) tiling.tiled.push_back(can_tile(graph, OpId(op), Cut::space));
  const Plan plan = plan_of(graph, tiling, "test");
  ASSERT_EQ(plan.passes.size(), 1U);
  EXPECT_EQ(graph.value(plan.passes[0].driver).name, "act.grad");
}

class Regions : public testing::TestWithParam<const char*> {};
TEST_P(Regions, TrainAsWholeValuesDo) { expect_same_in_tiles(GetParam(), {}); }

class RegionsOfTokens : public testing::TestWithParam<const char*> {};
TEST_P(RegionsOfTokens, TrainAsWholeValuesDo) { expect_same_in_tiles(GetParam(), Cut::tokens); }

INSTANTIATE_TEST_SUITE_P(Models, Regions,
                         testing::Values("vgg11", "vgg11_bn", "resnet18", "resnet50", "densenet121", "inception_v3", "unet2d",
                                         "unet3d", "darknet19", "convnext-tiny", "slide-s", "gpt2", "bert-base", "vit-b16"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Models, RegionsOfTokens, testing::Values("gpt2", "bert-base", "vit-b16"), test_name);

}  // namespace
}  // namespace outsize
