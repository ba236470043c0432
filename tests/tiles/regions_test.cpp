// Whole networks run tile by tile, all that can be cut of them: the results are those of whole values.
#include "plan/regions.h"

#include <gtest/gtest.h>

#include "../step_runs.h"
#include "graph/opdef.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "plan/tiled.h"
#include "plan/tiles.h"

namespace outsize {
namespace {

class Regions : public testing::TestWithParam<const char*> {};

TEST_P(Regions, TrainAsWholeValuesDo) {
  register_ops();
  ModelOptions model{.batch = 2, .classes = 4, .width = 0.125, .dtype = DType::f64};
  const std::string name = GetParam();
  model.image_height = name == "inception_v3" ? 299 : 48;
  model.image_width = name == "inception_v3" ? 299 : 32;
  if (name == "gpt2" || name == "bert-base") model.image_height = model.image_width = 0, model.sequence = 12;
  if (name == "unet3d") model.image_depth = model.image_height = model.image_width = 16;
  const StepGraph training = make_training_graph(build_model(name, model), {.gradients = true});
  const Graph& graph = training.graph;
  const std::unique_ptr<Backend> backend = make_backend("reference", 2);
  const Profile profile{find_device("cpu"), {}};
  const Outcome kept = train(training, find_planner("keep").make({graph, profile, backend->storage()}), *backend, true, 0, 1);

  const Cut cut = cut_of(graph);
  Tiling tiling{{}, std::vector<bool>(static_cast<std::size_t>(graph.value_count())), {}};
  for (std::int64_t op = 0; op < graph.op_count(); ++op) tiling.tiled.push_back(can_tile(graph, OpId(op), cut));
  tiling.stored = stored_in_phase(graph, tiling);
  Plan plan = plan_of(graph, tiling, "test");
  std::int64_t turn = 0;
  for (Pass& pass : plan.passes) {
    const Dims& shape = graph.value(pass.driver).type.shape;
    pass.cuts.resize(static_cast<std::size_t>(shape.rank()));
    if (++turn % 3 == 0 || cut == Cut::samples) pass.cuts[0] = {1};
    if (cut == Cut::samples) continue;
    const std::int64_t height = std::max<std::int64_t>(1, shape[2] / 3);
    for (std::int64_t row = height; row < shape[2]; row += height) pass.cuts[2].push_back(row);
  }
  for (ValueId value : streamable(graph, plan, values_read_later(graph, plan))) plan.home[value] = Tier::host;
  const Outcome tiled = train(training, plan, *backend, true, 256, 1);
  ASSERT_EQ(tiled.results.size(), kept.results.size());
  for (std::size_t i = 0; i < kept.results.size(); ++i) {
    const auto& [value, expected] = kept.results[i];
    EXPECT_LE(relative_error(graph.value(graph.find_value(value)).type.dtype, tiled.results[i].second, expected), 1e-9) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Regions,
                         testing::Values("vgg11", "vgg11_bn", "resnet18", "resnet50", "densenet121", "inception_v3", "unet2d",
                                         "unet3d", "darknet19", "convnext-tiny", "slide-s", "gpt2", "bert-base", "vit-b16"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace outsize
