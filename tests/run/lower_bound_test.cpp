// No planner beats the bound.
#include <gtest/gtest.h>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "search/prepare.h"

namespace outsize {
namespace {

struct Case {
  const char* name;
  ModelOptions options;
};

const std::vector<Case> kCases{
    {"vgg16", {.batch = 2, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.25}},
    {"resnet50", {.batch = 8, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125}},
    {"unet2d", {.batch = 2, .image_height = 64, .image_width = 64, .width = 0.25}},
    {"gpt2", {.batch = 8, .sequence = 64, .classes = 100, .width = 0.09}},
};

// The cpu, and one with a slow link, or one whose host runs updates by itself.
std::vector<Profile> profiles() {
  const Device cpu = find_device("cpu");
  Device slow = cpu, apart = cpu;
  slow.link_out = slow.link_in = cpu.link_out / 50;
  slow.full_duplex = false;
  apart.link_out = cpu.link_out / 10;
  apart.host_bandwidth = 1e11;
  return {{cpu, {}, {}}, {slow, {}, {}}, {apart, {}, {}}};
}

TEST(LowerBound, NoPlannerIsFaster) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  int plans = 0, above_the_ops = 0;
  for (const Case& c : kCases) {
    const StepGraph step = make_training_graph(build_model(c.name, c.options), {.optimizer = Optimizer::adamw});
    for (const Profile& profile : profiles()) {
      PrepareOptions options;
      options.planner = "keep";
      const std::int64_t whole = prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device;
      double more = 0;  // the bound of the budget before
      for (const int percent : {75, 50, 35}) {
        options.budgets.device = whole * percent / 100;
        const LowerBounds bounds = lower_bounds(step.graph, *backend, profile, options);
        EXPECT_GE(bounds.seconds, bounds.tiled_seconds);
        EXPECT_GE(bounds.seconds, more * (1 - 1e-9)) << c.name << " in " << percent << " %";
        more = bounds.seconds;
        for (const Planner& planner : planners()) {
          options.planner = planner.name;
          try {
            const Prepared prepared = prepare(step.graph, *backend, profile, options).take();
            EXPECT_GE(prepared.predicted.seconds, bounds.seconds * (1 - 1e-9))
                << c.name << " " << planner.name << " in " << percent << " %";
            ++plans;
            above_the_ops += bounds.seconds > bounds.tiled_seconds * 1.001;
          } catch (const BudgetError&) {
          }
        }
      }
    }
  }
  EXPECT_GT(plans, 100);
  EXPECT_GT(above_the_ops, 20);
  std::printf("%d plans, %d beside a bound above the time of the ops\n", plans, above_the_ops);
}

}  // namespace
}  // namespace outsize
