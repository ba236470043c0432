// Whether a planner fits must not depend on what its search happens to come upon: of sizes that grow, those up to some one fit, and
// none of the plans made for them fits a larger one.
#include <gtest/gtest.h>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/plan.h"
#include "search/prepare.h"

namespace outsize {
namespace {

struct Case {
  const char* planner;
  const char* model;
  std::int64_t image;
  std::int64_t held;             // the budget is what `keep` takes for a batch of so many; 0: the card's memory
  std::int64_t first, last, by;  // batches
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.planner << " " << c.model; }

class Luck : public testing::TestWithParam<Case> {
 protected:
  Luck() { register_ops(); }

  static Graph graph_of(std::int64_t batch) {
    const std::int64_t image = GetParam().image;
    return make_training_graph(build_model(GetParam().model, {.batch = batch, .image_height = image, .image_width = image}), {})
        .graph;
  }

  PrepareOptions options() {
    PrepareOptions options;
    options.windows = true;
    options.budgets = {profile_.device.memory_bytes, kNoLimit};
    if (GetParam().held == 0) return options;
    options.planner = "keep";
    options.budgets.device = kNoLimit;
    const Prepared keep = prepare(graph_of(GetParam().held), *backend_, profile_, options).take();
    options.budgets.device = keep.program.peak_bytes.device;
    return options;
  }

  const Profile profile_{find_device("rtx-3090-24"), {}, {}, {}};
  const std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
};

TEST_P(Luck, DecidesNothing) {
  const Case& c = GetParam();
  PrepareOptions options = this->options();
  std::map<std::int64_t, std::string> plans;  // of batches that fit
  std::vector<std::int64_t> refused;
  for (std::int64_t batch = c.first; batch <= c.last; batch += c.by) {
    const Graph graph = graph_of(batch);
    options.planner = c.planner;
    options.plan_text.clear();
    const Planned<Prepared> found = prepare(graph, *backend_, profile_, options);
    if (!found) {
      refused.push_back(batch);
      continue;
    }
    EXPECT_TRUE(refused.empty()) << c.planner << " refuses " << refused.front() << " and takes " << batch;
    plans[batch] = print_plan(graph, found->plan);
  }
  ASSERT_FALSE(plans.empty());
  ASSERT_FALSE(refused.empty());
  for (const auto& [batch, plan] : plans) {
    options.plan_text = plan;
    options.plan_file = "plan";
    EXPECT_FALSE(prepare(graph_of(refused.front()), *backend_, profile_, options))
        << c.planner << " refuses " << refused.front() << ", which its own plan for " << batch << " fits";
  }
}

const std::vector<Case> kCases{
    {"checkpoint", "resnet50", 224, 0, 1250, 1500, 50}, {"greedy", "resnet18", 64, 64, 205, 215, 2},
    {"vdnn", "resnet18", 64, 64, 183, 199, 2},          {"autoswap", "resnet18", 64, 64, 189, 197, 2},
    {"dynprog", "resnet50", 224, 315, 2164, 2304, 70},
};

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  return std::string(test.param.planner) + "_" + test.param.model;
}
INSTANTIATE_TEST_SUITE_P(Planners, Luck, testing::ValuesIn(kCases), name_of_case);

}  // namespace
}  // namespace outsize
