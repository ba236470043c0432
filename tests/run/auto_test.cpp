// No planner is faster than `auto`, which refuses only what all of them do.
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

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

const std::vector<Case> kCases{
    {"resnet18", {.batch = 4, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.125}},
    {"vgg11", {.batch = 2, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.25}},
};

class Auto : public testing::TestWithParam<Case> {
 protected:
  static StepGraph make_step() {
    register_ops();
    return make_training_graph(build_model(GetParam().name, GetParam().options), {.optimizer = Optimizer::adamw});
  }
  Planned<Prepared> prepare_by(std::string_view planner, const Profile& profile, const Budgets& budgets) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets = budgets;
    return prepare(step_.graph, *backend_, profile, options);
  }

  const StepGraph step_ = make_step();
  const std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
};

TEST_P(Auto, NoPlannerIsFasterOrFitsInLess) {
  const std::int64_t whole = prepare_by("keep", {find_device("cpu"), {}}, {})->program.peak_bytes.device;
  int plans = 0, refusals = 0;
  for (const char* device : {"cpu", "titan-rtx"})
    for (const int percent : {110, 50, 10}) {
      const Profile profile{find_device(device), {}};
      const Budgets budgets{.device = whole * percent / 100, .host = profile.device.is_host() ? 0 : kNoLimit};
      const std::string what = fmt::format("{} on {} in {} %", GetParam().name, device, percent);
      const Planned<Prepared> best = prepare_by("auto", profile, budgets);
      const Planned<Prepared> first = prepare_by("auto:effort=first", profile, budgets);
      EXPECT_EQ(first.fits(), best.fits()) << what;
      if (best) {
        ++plans;
        EXPECT_LE(best->program.peak_bytes.device, budgets.device) << what;
        EXPECT_LE(best->predicted.seconds, first->predicted.seconds) << what;
        EXPECT_TRUE(percent <= 100 || best->plan.planner == "keep") << what;
      } else {
        ++refusals;
        EXPECT_EQ(best.refusal().planner, "auto");
      }
      for (const Planner& planner : planners()) {
        const Planned<Prepared> other = prepare_by(planner.name, profile, budgets);
        if (!other) continue;
        ASSERT_TRUE(best) << planner.name << " fits " << what;
        // What the host does beside the device makes some steps faster than holding everything.
        if (percent > 100) continue;
        EXPECT_LE(best->predicted.seconds, other->predicted.seconds * 1.0002) << planner.name << " of " << what;
      }
    }
  EXPECT_GE(plans, 3);
  EXPECT_GE(refusals, 1);
}

TEST_P(Auto, SaysWhosePlanItIs) {
  const Profile profile{find_device("titan-rtx"), {}};
  PrepareOptions options;
  options.planner = "auto";
  options.budgets = {.device = prepare_by("keep", profile, {})->program.peak_bytes.device / 2};
  const Planned<Prepared> prepared = prepare(step_.graph, *backend_, profile, options);
  ASSERT_TRUE(prepared);
  const PlanRow row = row_of(step_.graph, profile, options, *prepared);
  EXPECT_EQ(row.planner, "auto");
  EXPECT_EQ(row.made_by, prepared->plan.planner);
  EXPECT_EQ(row.title(), "auto, by " + prepared->plan.planner);
}

INSTANTIATE_TEST_SUITE_P(Models, Auto, testing::ValuesIn(kCases), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace outsize
