// The library as a C++ user has it: nothing but include/outsize is included here, and src/ is not on the include path.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "outsize/outsize.h"

namespace outsize {
namespace {

Task small_task(const std::string& memory, const std::string& planner) {
  Task task;
  task.model.name = "resnet18";
  task.model.options = {.batch = 8, .image_height = 64, .image_width = 64, .classes = 5, .width = 0.125};
  task.planning.memory = memory;
  task.planning.planner = planner;
  task.planning.profile = "roofline";
  task.planning.advice_seconds = 0;
  task.machine.threads = 1;
  return task;
}

class Api : public testing::Test {
 protected:
  Api() { std::filesystem::create_directories(folder_); }
  ~Api() override {
    on_message({});
    std::filesystem::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      (std::string("outsize_api_") + testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(::getpid()));
};

TEST_F(Api, DescribesATask) {
  const Facts facts = describe(small_task("1GiB", "keep"));
  EXPECT_EQ(facts.batch, 8);
  EXPECT_EQ(facts.x_shape, "[8, 3, 64, 64]");
  EXPECT_EQ(facts.budgets.device, std::int64_t{1} << 30);
  EXPECT_TRUE(facts.device_is_host);
}

TEST_F(Api, APlanThatFitsStaysInItsBudget) {
  const PlanReport report = plan(small_task("80%", "checkpoint"));
  ASSERT_TRUE(report.fits());
  EXPECT_GT(report.row.peak_bytes.device, 0);
  EXPECT_LE(report.row.peak_bytes.device, report.facts.budgets.device);
  EXPECT_LE(report.facts.budgets.device, report.yardstick.keep_peak_bytes);
  EXPECT_GT(report.row.figures.recomputed_ops, 0);
}

TEST_F(Api, ARefusalIsAnAnswerWithItsFigures) {
  const PlanReport report = plan(small_task("80%", "keep"));
  ASSERT_FALSE(report.fits());
  const Refusal& refusal = report.refused->refusal;
  EXPECT_EQ(refusal.planner, "keep");
  EXPECT_EQ(refusal.tier, Tier::device);
  EXPECT_EQ(refusal.needed, report.yardstick.keep_peak_bytes);
  EXPECT_EQ(refusal.missing(), report.yardstick.keep_peak_bytes - report.facts.budgets.device);
  EXPECT_NE(report.refused->message.find(format_bytes(refusal.missing())), std::string::npos) << report.refused->message;

  TrainingRequest request;
  request.task = small_task("80%", "keep");
  request.steps = 1;
  const TrainingReport trained = train(request);
  ASSERT_TRUE(trained.refused);
  EXPECT_EQ(trained.refused->refusal.missing(), refusal.missing());
  EXPECT_TRUE(trained.losses.empty());
}

TEST_F(Api, ComparesPlanners) {
  const Comparison comparison = compare(small_task("80%", ""), {"keep", "checkpoint"});
  ASSERT_EQ(comparison.rows.size(), 2);
  EXPECT_EQ(comparison.rows[0].planner, "checkpoint");
  EXPECT_TRUE(comparison.rows[0].fits());
  EXPECT_EQ(comparison.rows[1].planner, "keep");
  EXPECT_FALSE(comparison.rows[1].fits());
  EXPECT_GT(comparison.rows[1].missing_bytes().value_or(0), 0);
}

TEST_F(Api, FindsTheLargestBatch) {
  FitRequest request{.planners = {"keep", "checkpoint"}};
  std::vector<std::string> found;
  request.found = [&](const FitRow& row, const Facts&) { found.push_back(row.row.planner); };
  const FitReport report = fit(small_task("20MiB", ""), request);
  EXPECT_EQ(found, request.planners);
  ASSERT_TRUE(report.fits());
  ASSERT_EQ(report.rows.size(), 2);
  ASSERT_TRUE(report.rows[0].largest && report.rows[1].largest);
  EXPECT_GT(report.rows[1].batch, report.rows[0].batch);
  // The batch it names fits, and by `keep`, of which there is one plan, the next does not.
  Task task = small_task("20MiB", "keep");
  task.model.options.batch = report.rows[0].batch;
  EXPECT_TRUE(plan(task).fits());
  ++task.model.options.batch;
  EXPECT_FALSE(plan(task).fits());
}

TEST_F(Api, TrainsTellsEachStepAndEvaluates) {
  TrainingRequest request;
  request.task = small_task("80%", "checkpoint");
  request.data = "synthetic";
  request.steps = 3;
  request.save = path("w.safetensors");
  std::vector<double> told;
  Observer observer;
  observer.step = [&](const StepReport& step) { told.push_back(step.loss); };
  const TrainingReport tight = train(request, observer);
  ASSERT_FALSE(tight.refused);
  EXPECT_EQ(told, tight.losses);
  ASSERT_EQ(tight.losses.size(), 3);
  for (const double loss : tight.losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_EQ(tight.measured_peaks.device, tight.predicted_peaks.device);
  EXPECT_LE(tight.measured_peaks.device, tight.facts.budgets.device);

  request.task = small_task("", "keep");
  request.save.clear();
  const TrainingReport roomy = train(request);
  EXPECT_EQ(roomy.losses, tight.losses);
  EXPECT_EQ(roomy.parameters_sha256, tight.parameters_sha256);

  // The same weights on the same data, all held and in a budget.
  const std::string data = "generated:slides:size=64x64,count=6";
  Task task = small_task("", "keep");
  const EvaluationReport whole = evaluate(task, path("w.safetensors"), data);
  ASSERT_FALSE(whole.refused);
  EXPECT_EQ(whole.score.samples, 6);
  EXPECT_TRUE(std::isfinite(whole.score.loss));
  task.planning.memory = "1";
  const EvaluationReport none = evaluate(task, path("w.safetensors"), data);
  ASSERT_TRUE(none.refused);
  EXPECT_GT(none.refused->refusal.missing(), 0);
  EXPECT_EQ(none.score.samples, 0);
}

TEST_F(Api, EndsWhereItIsAskedTo) {
  TrainingRequest request;
  request.task = small_task("", "keep");
  request.steps = 10;
  std::int64_t made = 0;
  Observer observer;
  observer.step = [&](const StepReport& step) { made = step.step; };
  observer.stop = [&] { return made >= 2 ? std::string("its caller") : std::string(); };
  std::vector<std::string> messages;
  on_message([&](const std::string& sentence) { messages.push_back(sentence); });
  const TrainingReport report = train(request, observer);
  EXPECT_EQ(report.steps_made, 2);
  EXPECT_EQ(report.stopped_by, "its caller");
  ASSERT_EQ(messages.size(), 1);
  EXPECT_NE(messages[0].find("stopped by its caller after step 2 of 10"), std::string::npos) << messages[0];
}

TEST_F(Api, WhatMakesNoSenseIsAUserError) {
  Task task = small_task("80%", "keep");
  task.model.name = "resnet19";
  EXPECT_THROW(plan(task), UserError);
  task = small_task("80 apples", "keep");
  EXPECT_THROW(plan(task), UserError);
  task = small_task("80%", "kept");
  EXPECT_THROW(plan(task), UserError);
  EXPECT_THROW(list_ops("conv7d"), UserError);
}

TEST_F(Api, ListsWhatThereIs) {
  const auto has = [](const auto& infos, auto name, const std::string& wanted) {
    return std::ranges::find(infos, wanted, name) != infos.end();
  };
  EXPECT_TRUE(has(list_models(), &ModelInfo::name, "unet3d"));
  EXPECT_TRUE(has(list_planners(), &PlannerInfo::name, "tsplit"));
  EXPECT_TRUE(has(list_ops(), &OpInfo::kind, "conv2d"));
  EXPECT_TRUE(has(list_devices(), &Device::name, "rtx-3090-24"));
  EXPECT_FALSE(version().empty());
}

}  // namespace
}  // namespace outsize
