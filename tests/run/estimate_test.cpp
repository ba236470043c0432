// What planners' searches reckon a plan takes, beside what the simulator makes of its program.
#include "plan/reckon/estimate.h"

#include <gtest/gtest.h>

#include "../train/definitions.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/trainer.h"

namespace outsize {
namespace {

struct Case {
  std::string model;
  ModelOptions options;
};

TEST(Estimate, IsNearTheSimulator) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const std::vector<Case> cases{
      {"unet2d", {.batch = 2, .image_height = 64, .image_width = 64, .width = 0.25}},
      {"resnet50", {.batch = 16, .image_height = 64, .image_width = 64}},
      {"densenet121", {.batch = 8, .image_height = 64, .image_width = 64}},
      {"bert-base", {.batch = 8, .sequence = 64, .classes = 100, .width = 0.25}},
  };
  for (const Case& c : cases) {
    const StepGraph step = make_training_graph(build_model(c.model, c.options), {});
    for (const char* device : {"cpu", "titan-rtx"}) {
      const Profile profile{find_device(device), {}};
      const auto workspace = [&](const Call& call) { return backend->kernel(call)->workspace_bytes(); };
      const PlanRequest request{.graph = step.graph, .profile = profile, .storage = backend->storage(), .workspace = workspace};
      const OpCosts costs = costs_of(request);
      const Definitions definitions(step, request);
      int compared = 0;
      PrepareOptions options;
      options.planner = "keep";
      const std::int64_t whole = prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device;
      for (const char* planner : {"keep", "vdnn-all", "offload-ratio", "superneurons", "tflms", "autoswap"}) {
        options.planner = planner;
        options.budgets.device = planner == std::string("keep") ? kNoLimit : whole * 85 / 100;
        const Planned<Prepared> prepared = prepare(step.graph, *backend, profile, options);
        if (!prepared) {
          EXPECT_LT(static_cast<double>(options.budgets.device), 1.03 * static_cast<double>(definitions.bytes_of(planner)))
              << c.model << " " << device << " " << planner << " is refused, which its definition fits in";
          continue;
        }
        ++compared;
        Runs runs;
        for (const Step& one : prepared->plan.steps)
          if (const auto* run = std::get_if<RunStep>(&one)) runs.push_back(run->op);
        PlanRequest asked = request;
        asked.budgets.device = options.budgets.device;
        const double estimated = estimated_seconds(asked, lives_of(request, costs, runs), prepared->plan);
        const double ratio = estimated / prepared->predicted.seconds;
        // Where much is made again while copies run, which freed bytes the packing takes decides; no search asks about those.
        const double near = planner == std::string("superneurons") ? 0.1 : 0.05;
        EXPECT_NEAR(ratio, 1, near) << c.model << " " << device << " " << planner;
        std::printf("%-16s %-10s %-14s estimated / simulated %.4f\n", c.model.c_str(), device, planner, ratio);
      }
      EXPECT_GE(compared, 5) << c.model << " " << device;
    }
  }
}

// Updates by the host, gradients on the way to them, and weights that come more than once.
TEST(Estimate, OfUpdatesByTheHostIsNearTheSimulator) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const StepGraph step = make_training_graph(build_model("gpt2", {.batch = 4, .sequence = 128, .classes = 1000, .width = 0.5}),
                                             {.optimizer = Optimizer::adamw});
  int compared = 0;
  for (const char* device : {"titan-rtx", "rtx-4090-24"}) {
    const Profile profile{find_device(device), {}};
    const auto workspace = [&](const Call& call) { return backend->kernel(call)->workspace_bytes(); };
    PlanRequest request{.graph = step.graph, .profile = profile, .storage = backend->storage(), .workspace = workspace};
    PrepareOptions options;
    options.planner = "keep";
    const std::int64_t whole = prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device;
    options.planner = "stream";
    for (const int percent : {75, 60, 45, 30}) {
      options.budgets.device = request.budgets.device = whole * percent / 100;
      const Planned<Prepared> prepared = prepare(step.graph, *backend, profile, options);
      if (!prepared || !prepared->plan.passes.empty()) continue;
      ++compared;
      Runs runs;
      IdVector<OpId, bool> on_host(step.graph.op_count(), false);
      for (const Step& one : prepared->plan.steps)
        if (const auto* run = std::get_if<RunStep>(&one)) {
          runs.push_back(run->op);
          if (run->where == Tier::host) on_host[run->op] = true;
        }
      const Lives lives = lives_of(request, costs_of(request), runs, on_host);
      const double ratio = estimated_seconds(request, lives, prepared->plan) / prepared->predicted.seconds;
      EXPECT_NEAR(ratio, 1, 0.03) << device << " " << percent << " %";
      std::printf("%-12s %d %% estimated / simulated %.4f\n", device, percent, ratio);
    }
  }
  EXPECT_GE(compared, 6);
}

}  // namespace
}  // namespace outsize
