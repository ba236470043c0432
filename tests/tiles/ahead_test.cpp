// Copies of a pass that run beside the ops of its neighbouring tiles.
#include <gtest/gtest.h>

#include "../step_runs.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "search/prepare.h"

namespace outsize {
namespace {

class Ahead : public testing::TestWithParam<const char*> {
 protected:
  Ahead() {
    register_ops();
    step_ =
        make_training_graph(build_model("darknet19", {.batch = 1, .image_height = 512, .image_width = 512, .width = 0.125}), {});
  }

  StepGraph step_;
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
};

// Over a link about as slow as the ops (15 GB/s: at 17 and more the copies are too short for what is asked here), planners choose
// them. The same plan without gives the same bits and takes longer.
TEST_P(Ahead, SavesTimeAndChangesNothing) {
  Device device = find_device("rtx-2080ti-11");
  device.link_in = device.link_out = 1.5e10;
  const Profile profile{device, {}};
  PrepareOptions options;
  options.planner = GetParam();
  const std::int64_t whole = prepare(step_.graph, *backend_, profile, {.planner = "keep"}).take().program.peak_bytes.device;
  options.budgets.device = whole / 8;
  Prepared ahead = prepare(step_.graph, *backend_, profile, options).take();
  EXPECT_LE(ahead.program.peak_bytes.device, options.budgets.device);
  Plan now = ahead.plan;
  int changed = 0;
  for (Pass& pass : now.passes) changed += std::exchange(pass.ahead, false);
  ASSERT_GT(changed, 0);
  EXPECT_EQ(parse_plan(step_.graph, print_plan(step_.graph, ahead.plan), "test.plan").passes, ahead.plan.passes);

  const Outcome expected = train(step_, now, *backend_, true, 0, 1), found = train(step_, ahead.plan, *backend_, true, 0, 1);
  EXPECT_TRUE(found.results == expected.results);
  EXPECT_LT(simulate(step_.graph, found.program, profile).seconds, 0.9 * simulate(step_.graph, expected.program, profile).seconds);
  const Outcome unrolled = train(step_, ahead.plan, *backend_, false, 0, 1);
  EXPECT_TRUE(unrolled.results == expected.results);
  EXPECT_LT(found.program.instructions.size(), unrolled.program.instructions.size());
}

INSTANTIATE_TEST_SUITE_P(Planners, Ahead, testing::Values("2ps-h", "overl-h"),
                         [](const auto& test) { return std::string(test.param) == "2ps-h" ? "two_ps_h" : "overl_h"; });

}  // namespace
}  // namespace outsize
