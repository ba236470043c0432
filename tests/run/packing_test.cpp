// How well the packer does on real programs: the peak beside the largest sum of live bytes, which no packing can beat.
#include <gtest/gtest.h>

#include <ctime>

#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/swap/swap_chain.h"
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
      const std::clock_t begin = std::clock();
      const Prepared prepared = prepare(training.graph, *backend, Profile{find_device("cpu"), {}}, choices).take();
      const double ratio =
          static_cast<double>(prepared.program.peak_bytes.device) / static_cast<double>(prepared.program.live_bytes);
      EXPECT_LE(ratio, 1.03) << model.name << " " << planner.name;
      EXPECT_GT(ratio, 0.99) << model.name << " " << planner.name;
      // Planning, lowering, checking and simulating, in seconds of the processor: others may run beside.
      const bool huge = model.name == "resnet1001" || model.name == "gpt2-xl";
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, huge ? 5 : 1) << model.name << " " << planner.name;
      std::printf("%-18.*s %-16.*s peak / live %.4f, planned in %.3f s\n", static_cast<int>(model.name.size()), model.name.data(),
                  static_cast<int>(planner.name.size()), planner.name.data(), ratio, seconds);
    }
  }
}

// What leaves is what is too much, rounded up to whole layers (Theorem 2 of the offloading paper). Packing takes more than the sum
// of live bytes; values then leave earlier and come back later, rather than more of them.
TEST(Packing, GreedyMovesNoMoreThanWhatIsTooMuchAndALayer) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("v100-pcie-16"), {}};
  for (const char* model : {"resnet50", "densenet121"}) {
    const StepGraph training = make_training_graph(build_model(model, {.batch = 8}), {});
    PrepareOptions choices;
    choices.planner = "keep";
    const std::int64_t whole = prepare(training.graph, *backend, profile, choices).take().program.peak_bytes.device;
    choices.planner = "greedy";
    for (const std::int64_t percent : {50, 60, 70, 80}) {
      choices.budgets.device = whole * percent / 100;
      const PlanRequest request{
          .graph = training.graph,
          .profile = profile,
          .storage = backend->storage(),
          .budgets = {.device = choices.budgets.device},
          .workspace = [&](const Call& call) { return backend->kernel(call)->workspace_bytes(); },
      };
      const SwapChain of = swap_chain_of(request);
      const std::int64_t excess = peak_bytes(of.chain) + of.fixed - choices.budgets.device;
      const std::int64_t layer = *std::max_element(of.chain.x.begin(), of.chain.x.end());
      const Prepared prepared = prepare(training.graph, *backend, profile, choices).take();
      EXPECT_LE(prepared.program.peak_bytes.host, excess + layer) << model << " at " << percent << " %";
    }
  }
}

}  // namespace
}  // namespace outsize
