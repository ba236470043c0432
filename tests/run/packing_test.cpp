// How well the packer does on real programs: the peak beside the largest sum of live bytes, which no packing can beat.
#include <gtest/gtest.h>

#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/trainer.h"

namespace outsize {
namespace {

// Every model of the zoo at its own size.
TEST(Packing, PeakIsWithinThreePercentOfTheLiveSum) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  for (const ModelEntry& model : zoo()) {
    const StepGraph training = make_training_graph(build_model(model.name, {.batch = 2}), {});
    for (const Planner& planner : planners()) {
      PrepareOptions choices;
      choices.planner = planner.name;
      const Prepared prepared = prepare(training.graph, *backend, Profile{find_device("cpu"), {}}, choices);
      const double ratio = static_cast<double>(prepared.program.peak_bytes[0]) / static_cast<double>(prepared.program.live_bytes);
      EXPECT_LE(ratio, 1.03) << model.name << " " << planner.name;
      EXPECT_GT(ratio, 0.99) << model.name << " " << planner.name;
      // Planning, lowering, checking and simulating; far below on a quiet machine.
      const bool huge = model.name == "resnet1001" || model.name == "gpt2-xl";
      EXPECT_LT(prepared.plan_seconds, huge ? 5 : 1) << model.name << " " << planner.name;
      std::printf("%-18.*s %-16.*s peak / live %.4f, planned in %.3f s\n", static_cast<int>(model.name.size()), model.name.data(),
                  static_cast<int>(planner.name.size()), planner.name.data(), ratio, prepared.plan_seconds);
    }
  }
}

}  // namespace
}  // namespace outsize
