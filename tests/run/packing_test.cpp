// How well the packer does on real programs: the peak beside the largest sum of live bytes, which no packing can beat.
#include <gtest/gtest.h>

#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/training.h"

namespace outsize {
namespace {

TEST(Packing, PeakIsWithinThreePercentOfTheLiveSum) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  for (const char* model : {"vgg16-features", "vgg16", "vgg16_bn", "resnet18", "resnet50", "resnet152"})
    for (const Planner& planner : planners()) {
      ModelOptions options;
      options.batch = 4;
      options.image_height = options.image_width = 64;
      const TrainingGraph training = make_training_graph(build_model(model, options), {});
      PrepareOptions choices;
      choices.planner = planner.name;
      const Prepared prepared = prepare(training.graph, *backend, Profile{find_device("cpu"), {}}, choices);
      const double ratio = static_cast<double>(prepared.program.peak_bytes[0]) / static_cast<double>(prepared.program.live_bytes);
      EXPECT_LE(ratio, 1.03) << model << " " << planner.name;
      EXPECT_GT(ratio, 0.99) << model << " " << planner.name;
    }
}

}  // namespace
}  // namespace outsize
