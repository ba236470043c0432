// Whatever options a planner is given, it trains as `keep` does, bit by bit.
#include <gtest/gtest.h>

#include "../batches.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "run/trainer.h"

namespace outsize {
namespace {

struct Case {
  std::string name;
  ModelOptions options;
};

std::string train(const StepGraph& step, Prepared prepared, Backend& backend) {
  const std::int64_t predicted = prepared.program.peak_bytes.device;
  Trainer trainer({step, std::move(prepared)}, backend, 3);
  const std::unique_ptr<Loader> data = synthetic_batches(batch_spec_of(step), 5);
  Batch batch;
  for (std::int64_t i = 0; i < 3; ++i) {
    data->make(i, batch);
    trainer.step(batch, 0.01);
  }
  EXPECT_EQ(trainer.measured_peak_bytes(), predicted);
  return trainer.parameters_sha256() + trainer.states_sha256();
}

// How often the plan brings a value in that it has brought in before.
std::int64_t again(const Plan& plan) {
  std::map<ValueId, std::int64_t> count;
  for (const Step& step : plan.steps)
    if (const auto* in = std::get_if<InStep>(&step)) ++count[in->value];
  std::int64_t sum = 0;
  for (const auto& [value, times] : count) sum += times - 1;
  return sum;
}

TEST(PlannerOptions, TrainAsKeepDoes) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Profile profile{find_device("cpu"), {}};
  const std::string all = "tflms:n_tensors=-1,lb=";
  const std::vector<std::string> planners{all + "1",
                                          all + "5",
                                          all + "1,fuse_swapins=true",
                                          all + "1,ctrld_strategy=direct_order",
                                          all + "4,ctrld_strategy=direct_order,ub=4,swap_branches=true,branch_threshold=6",
                                          all + "100",
                                          "autoswap:score=doa",
                                          "autoswap:score=aoa",
                                          "autoswap:score=wdoa",
                                          "autoswap:score=swdoa",
                                          "checkpoint:segments=3",
                                          "superneurons:recompute=memory",
                                          "offload-ratio:ratio=0.5",
                                          "vdnn:threshold=0",
                                          "dynprog:slots=50"};
  // Of all networks: in one whose values backward reads once, nothing comes twice.
  std::int64_t unfused = 0, fused = 0;
  for (const Case& c : std::vector<Case>{
           {"unet2d", {.batch = 1, .image_height = 64, .image_width = 64, .width = 0.125}},
           {"inception_v3", {.batch = 2, .image_height = 299, .image_width = 299, .classes = 10, .width = 0.125}},
           {"resnet18", {.batch = 16, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125}},
       }) {
    const StepGraph step = make_training_graph(build_model(c.name, c.options), {});
    PrepareOptions options;
    options.planner = "keep";
    Prepared keep = prepare(step.graph, *backend, profile, options).take();
    const std::int64_t whole = keep.program.peak_bytes.device;
    const std::string expected = train(step, std::move(keep), *backend);
    options.budgets.device = whole * 9 / 10;
    for (const std::string& planner : planners) {
      options.planner = planner;
      Prepared prepared = prepare(step.graph, *backend, profile, options).take();
      EXPECT_EQ(prepared.plan.planner, planner.substr(0, planner.find(':')));
      (planner.find("fuse") == std::string::npos ? unfused : fused) += again(prepared.plan);
      EXPECT_EQ(train(step, std::move(prepared), *backend), expected) << c.name << " " << planner;
    }
  }
  EXPECT_GT(unfused, 0);
  EXPECT_LT(fused, unfused);
}

}  // namespace
}  // namespace outsize
