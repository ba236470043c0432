// 2PS computes no row of a map twice in a pass: what a step multiplies is what an untiled one does and at most one more forward.
#include <gtest/gtest.h>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/opdef.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "search/prepare.h"

namespace outsize {
namespace {

// Multiplications of convolutions and matrices in a step of the program, its loops unrolled.
struct Multiplications {
  double forward = 0;  // of ops of that phase, run again or not
  double all = 0;
};

Multiplications multiplications(const Graph& graph, const Program& program) {
  std::vector<std::int64_t> times(program.instructions.size(), 1);
  for (const Loop& loop : program.loops)
    for (std::int32_t i = loop.begin; i < loop.end; ++i) times[static_cast<std::size_t>(i)] = loop.count;
  Multiplications sum;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.action != Action::kernel) continue;
    const Op& op = graph.op(instruction.op);
    if (!op.def->kind().starts_with("conv") && !op.def->kind().starts_with("linear")) continue;
    const Call call = call_of(graph, program, instruction);
    const double count = op.def->cost({graph, op}, call.boxes).flops / 2 * static_cast<double>(times[i]);
    sum.all += count;
    if (op.phase == Phase::forward) sum.forward += count;
  }
  return sum;
}

class Work : public testing::TestWithParam<const char*> {};

TEST_P(Work, IsThatOfOneMoreForward) {
  register_ops();
  const StepGraph step = make_training_graph(
      build_model(GetParam(), {.batch = 1, .image_height = 512, .image_width = 512, .classes = 10, .width = 0.125}), {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Profile profile{find_device("cpu"), {}};
  const auto prepare_by = [&](std::string_view planner, std::int64_t budget) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = budget;
    return prepare(step.graph, *backend, profile, options).take();
  };
  const Prepared keep = prepare_by("keep", kNoLimit);
  const Multiplications whole = multiplications(step.graph, keep.program);
  ASSERT_GT(whole.forward, 0);
  for (const char* planner : {"2ps", "2ps-h"})
    for (const int percent : {75, 50, 35}) {
      const Prepared prepared = prepare_by(planner, keep.program.peak_bytes.device * percent / 100);
      EXPECT_TRUE(rounds(step.graph, prepared.plan)) << planner << " in " << percent << " %";
      const double found = multiplications(step.graph, prepared.program).all;
      EXPECT_GE(found, whole.all * (1 - 1e-9));
      EXPECT_LE(found, (whole.all + whole.forward) * (1 + 1e-9)) << planner << " in " << percent << " %";
      fmt::print("{} {} in {} %: a step and {:.3f} forwards, {} tiles\n", GetParam(), planner, percent,
                 (found - whole.all) / whole.forward, figures_of(step.graph, prepared).tiles);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Work, testing::Values("vgg16", "resnet50"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace outsize
