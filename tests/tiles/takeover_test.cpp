// Streamed gradients in the bytes of their activations: the same numbers, in as much less host memory or disk as they take.
#include <gtest/gtest.h>

#include "../step_runs.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "search/prepare.h"

namespace outsize {
namespace {

// Every map has 16 · 16 · 4 numbers.
constexpr const char* kStack = R"(
graph stack
input x f64[1, 16, 16, 4]
input labels i32[1]
param conv1.weight f64[16, 16, 3, 3] init=normal:0.1
param conv2.weight f64[16, 16, 3, 3] init=normal:0.1
param conv3.weight f64[16, 16, 3, 3] init=normal:0.1
conv1: u = conv2d(x, conv1.weight) padding=[1, 1, 1, 1]
act1: a = relu(u)
conv2: v = conv2d(a, conv2.weight) padding=[1, 1, 1, 1]
act2: b = relu(v)
conv3: w = conv2d(b, conv3.weight) padding=[1, 1, 1, 1]
act3: c = relu(w)
gap: g = adaptive_avg_pool(c) output=[1, 1]
flat: f = reshape(g) shape=[1, 16]
loss: loss = softmax_cross_entropy(f, labels)
output loss
)";
constexpr std::int64_t kNumbers = 16 * 16 * 4;

std::string layer_by_layer(std::string_view tier) {
  return fmt::format(R"(
stream a {0}
stream b {0}
stream conv3.grad_data {0}
stream conv2.grad_data {0}
pass f1 driver=a grid=[1, 1, 8, 1] ops=[conv1]
pass f2 driver=b grid=[1, 1, 8, 1] ops=[conv2]
pass f3 driver=c grid=[1, 1, 8, 1] ops=[conv3]
until conv3.grad_data
pass b3 driver=conv3.grad_data grid=[1, 1, 8, 1] ops=[conv3.grad_data, conv3.grad_weight]
pass b2 driver=conv2.grad_data grid=[1, 1, 1, 2] ops=[conv2.relu_grad, conv2.grad_data, conv2.grad_weight]
pass b1 driver=conv1.relu_grad grid=[1, 1, 5, 1] ops=[conv1, conv1.relu_grad, conv1.grad_weight]
rest
)",
                     tier);
}

struct Case {
  const char* name;
  std::string plan;
  // Maps that lie in the lower tier at most, with takeovers and without.
  std::int64_t maps;
  std::int64_t maps_without;
  Tier tier = Tier::host;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const Case kCases[] = {
    // a and b; then the gradient of b beside them, since its gate is b; then that of a, in the place of a. That of c is on the
    // device.
    {"layer_by_layer", layer_by_layer("host"), 3, 4},
    {"layer_by_layer_on_disk", layer_by_layer("disk"), 3, 4, Tier::disk},
    // Both layers again from a, each row once: what is read of a runs ahead of its gradient.
    {"two_layers_shared", R"(
stream a host
stream conv2.grad_data host
pass f1 driver=a grid=[1, 1, 8, 1] ops=[conv1]
pass f3 driver=c grid=[1, 1, 8, 1] ops=[conv2, conv3]
until conv3.grad_data
pass b3 driver=conv2.grad_data grid=[1, 1, 8, 1] share=[b, conv3.grad_data, conv2.relu_grad] ops=[conv2, conv3.grad_data, conv3.grad_weight, conv2.relu_grad, conv2.grad_data, conv2.grad_weight]
pass b1 driver=conv1.relu_grad grid=[1, 1, 8, 1] ops=[conv1, conv1.relu_grad, conv1.grad_weight]
rest
)",
     1, 2},
    // With the halo again in each tile, the gate of b's gradient reads rows of a whose gradient is there.
    {"two_layers_overlapped", R"(
stream a host
stream conv2.grad_data host
pass f1 driver=a grid=[1, 1, 8, 1] ops=[conv1]
pass f3 driver=c grid=[1, 1, 8, 1] ops=[conv2, conv3]
until conv3.grad_data
pass b3 driver=conv2.grad_data grid=[1, 1, 8, 1] ops=[conv2, conv3.grad_data, conv3.grad_weight, conv2.relu_grad, conv2.grad_data, conv2.grad_weight]
pass b1 driver=conv1.relu_grad grid=[1, 1, 8, 1] ops=[conv1, conv1.relu_grad, conv1.grad_weight]
rest
)",
     2, 2},
};

class Takeover : public testing::TestWithParam<Case> {};

TEST_P(Takeover, GivesTheSameNumbersInFewerBytes) {
  const Case& c = GetParam();
  register_ops();
  const Profile profile{find_device("cpu"), {}};
  for (const char* name : {"reference", "cpu"}) {
    const std::unique_ptr<Backend> backend = make_backend(name, 2);
    for (const DType dtype : {DType::f64, DType::f32}) {
      if (dtype == DType::f64 && std::string_view(name) == "cpu") continue;
      std::string text = kStack;
      if (dtype == DType::f32)
        for (std::size_t at = text.find("f64"); at != std::string::npos; at = text.find("f64", at)) text.replace(at, 3, "f32");
      const StepGraph training = make_training_graph(parse_graph(text, "stack"), {});
      const Plan plan = parse_plan(training.graph, c.plan, "test");
      const Outcome without = train(training, plan, *backend, true, 0, 3, false);
      const std::int64_t map = kNumbers * size_of(dtype);
      EXPECT_EQ(without.program.peak_bytes[c.tier], c.maps_without * map) << name;
      for (const bool loops : {true, false}) {
        const Outcome with = train(training, plan, *backend, loops, 0);
        EXPECT_EQ(with.program.peak_bytes[c.tier], c.maps * map) << name;
        EXPECT_EQ(with.results, without.results) << name << ", loops " << loops;
      }
      // … and where whatever is written outside its piece or read after its life is found.
      EXPECT_EQ(train(training, plan, *backend, true, 256).results, without.results) << name;
      const Plan keep = find_planner("keep").make({.graph = training.graph, .profile = profile}).take();
      const Outcome kept = train(training, keep, *backend, true, 0);
      expect_close(training.graph, without, kept, dtype == DType::f64 ? 1e-9 : 1e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, Takeover, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

// The end of a U-Net has maps as large as its beginning, so that their gradients come when most is stored.
TEST(TakeoverByPlanners, NeedsNoMoreHostMemoryThanThereIs) {
  register_ops();
  const StepGraph step = make_training_graph(
      build_model("unet2d", {.batch = 1, .image_height = 128, .image_width = 128, .classes = 2, .width = 0.25}), {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  PrepareOptions options;
  options.planner = "keep";
  const std::int64_t keep = prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device;
  options.planner = "2ps-h:stream=all";
  // The weights and their momentum take 15 of keep's 36 MB: in two thirds of it they can stay, and maps alone wait in host memory.
  options.budgets.device = keep * 2 / 3;
  const Prepared free = prepare(step.graph, *backend, profile, options).take();
  LowerOptions without;
  without.storage = backend->storage();
  without.takeovers = false;
  const std::int64_t needed = free.program.peak_bytes.host;
  EXPECT_LT(needed, lower(step.graph, free.plan, without).take().peak_bytes.host);
  // Given just that, the planner takes the same plan.
  options.budgets.host = needed;
  const Prepared exact = prepare(step.graph, *backend, profile, options).take();
  EXPECT_EQ(exact.plan.passes, free.plan.passes);
  EXPECT_EQ(exact.program.peak_bytes.host, needed);
}

}  // namespace
}  // namespace outsize
