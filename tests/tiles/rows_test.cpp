// What a user chooses of LR-CNN's planners is what their plans have.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "search/prepare.h"

namespace outsize {
namespace {

class Rows : public testing::Test {
 protected:
  Rows() {
    register_ops();
    step_ = make_training_graph(
        build_model("vgg16-features", {.batch = 4, .image_height = 128, .image_width = 128, .width = 0.125}), {});
    keep_peak_ = plan("keep", kNoLimit).program.peak_bytes.device;
  }

  Prepared plan(const std::string& planner, std::int64_t budget, std::int64_t host = kNoLimit) const {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = budget;
    options.budgets.host = host;
    return prepare(step_.graph, *backend_, profile_, options).take();
  }

  // Tiles along dimension `dim` in the pass that has most.
  static std::int64_t most_tiles(const Plan& plan, std::size_t dim) {
    std::int64_t most = 1;
    for (const Pass& pass : plan.passes)
      if (dim < pass.cuts.size()) most = std::max(most, static_cast<std::int64_t>(pass.cuts[dim].size()) + 1);
    return most;
  }

  const std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
  const Profile profile_{find_device("cpu"), {}};
  StepGraph step_;
  std::int64_t keep_peak_ = 0;
};

TEST_F(Rows, AloneAreAsFewAsFit) {
  for (const char* planner : {"overl", "2ps", "overl-h", "2ps-h"}) {
    const std::string alone = std::string(planner) + ":cut=rows,stream=none";
    const Prepared rows = plan(alone, keep_peak_ * 2 / 3);
    EXPECT_GT(most_tiles(rows.plan, 2), 1) << planner;
    for (const std::size_t dim : {0, 3}) EXPECT_EQ(most_tiles(rows.plan, dim), 1) << planner << " along " << dim;
    EXPECT_EQ(rows.program.peak_bytes.host, 0) << planner;
  }
  const std::int64_t budget = keep_peak_ * 2 / 3;
  const std::string two_blocks = "2ps:layers=6,stream=none";
  const std::int64_t fewest = most_tiles(plan(two_blocks + ",cut=rows", budget).plan, 2);
  ASSERT_GT(fewest, 1);
  EXPECT_EQ(most_tiles(plan(fmt::format("{},rows={}", two_blocks, fewest), budget).plan, 2), fewest);
  EXPECT_THROW(plan(fmt::format("{},rows={}", two_blocks, fewest - 1), budget), BudgetError);
}

TEST_F(Rows, GivenAreTakenWhereEverythingFits) {
  for (const char* planner : {"overl", "2ps", "overl-h", "2ps-h"})
    EXPECT_EQ(most_tiles(plan(std::string(planner) + ":rows=2", keep_peak_ * 2).plan, 2), 2) << planner;
}

TEST_F(Rows, StayOnTheDeviceWhereTheHostHasNoRoom) {
  constexpr std::int64_t kLittle = 4096;
  for (const char* planner : {"overl", "2ps"}) {
    const Prepared prepared = plan(planner, keep_peak_ * 2 / 3, kLittle);
    EXPECT_LE(prepared.program.peak_bytes.host, kLittle) << planner;
    EXPECT_TRUE(rounds(step_.graph, prepared.plan)) << planner;
  }
}

}  // namespace
}  // namespace outsize
