// No planner beats the bound.
#include <gtest/gtest.h>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "search/prepare.h"
#include "search/row.h"

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

// Whole ops were measured, and take thrice their estimates, which tiles go by; or tiles were too, and take a tenth of theirs.
TEST(LowerBound, HoldsForTilesWhateverTheyTake) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const ModelOptions model{.batch = 1, .image_height = 256, .image_width = 256, .width = 0.0625};
  const StepGraph step = make_training_graph(build_model("vgg16-features", model), {});
  for (const bool tiles_too : {false, true}) {
    Profile profile{find_device("cpu"), {}, {}, {}};
    const auto measure = [&](const Program& program, double estimates) {
      for (const Instruction& instruction : program.instructions)
        if (instruction.action == Action::kernel) {
          const Call call = call_of(step.graph, program, instruction);
          profile.seconds.emplace(signature(call), estimates * roofline_seconds(profile.device, call));
        }
    };
    PrepareOptions options;
    options.planner = "keep";
    const Prepared keep = prepare(step.graph, *backend, profile, options).take();
    measure(keep.program, tiles_too ? 1 : 3);
    options.budgets = {keep.program.peak_bytes.device / 3, kNoLimit};
    Yardstick yardstick = yardstick_of(step.graph, *backend, profile, options, keep);
    const double whole = yardstick.bound_seconds;
    std::vector<PlanRow> rows;
    for (const char* planner : {"tsplit", "overl", "2ps", "2ps-h", "checkpoint", "vdnn-all"}) {
      options.planner = planner;
      if (const Planned<Prepared> tiled = prepare(step.graph, *backend, profile, options); tiled && tiles_too)
        measure(tiled->program, 0.1);
      if (PlanRow row = plan_row(step.graph, *backend, profile, options); row.fits()) rows.push_back(std::move(row));
    }
    for (const PlanRow& row : rows) yardstick.hold_for(row);
    int faster = 0;
    for (const PlanRow& row : rows) {
      EXPECT_GE(row.step_seconds, yardstick.bound_of(row.figures) * (1 - 1e-9)) << row.planner;
      EXPECT_GE(row.step_seconds, std::min(yardstick.bound_seconds, yardstick.tiled_bound_seconds) * (1 - 1e-9)) << row.planner;
      faster += row.step_seconds < whole;
    }
    EXPECT_GT(faster, 0);
    EXPECT_EQ(yardstick.bound_seconds, whole);  // of plans without tiles, which stays
  }
}

}  // namespace
}  // namespace outsize
