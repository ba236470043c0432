// What the backend `cuda` asks of a card, on one that the host acts.
#include "stand_in.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "outsize/outsize.h"

namespace outsize {
namespace {

TrainingRequest small_training(const std::string& backend, const std::string& planner) {
  TrainingRequest request;
  request.task.model.name = "resnet18";
  request.task.model.options = {.batch = 2, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.0625};
  request.task.model.precision = "f32";
  request.task.machine.backend = backend;
  request.task.machine.threads = 2;
  request.task.planning.planner = planner;
  request.task.planning.memory = "64MiB";
  request.task.planning.profile = "roofline";
  request.learning_rate.base = 0.001;
  request.steps = 4;
  return request;
}

TrainingReport run(const TrainingRequest& request, Observer observer = {}) {
  // What is measured is kept there for the next run.
  static const std::string cache =
      (std::filesystem::temp_directory_path() / ("outsize_stand_in_" + std::to_string(::getpid()))).string();
  setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  observer.quiet = true;
  return train(request, observer);
}

// One of each kind of plan.
struct Kind {
  const char* name;
  const char* planner;
  const char* host_memory;
  bool disk;
};
std::ostream& operator<<(std::ostream& stream, const Kind& kind) { return stream << kind.name; }

class Kinds : public testing::TestWithParam<Kind> {
 protected:
  TrainingRequest request() const {
    TrainingRequest made = small_training("cuda", GetParam().planner);
    made.task.planning.host_memory = GetParam().host_memory;
    if (GetParam().disk) made.task.planning.spill = std::filesystem::temp_directory_path().string();
    return made;
  }
};

// What each step asked for, the first left out.
std::vector<stand_in::Counts> counts_of_steps(const TrainingRequest& request, TrainingReport& report) {
  std::vector<stand_in::Counts> seen;
  Observer observer;
  observer.step = [&](const StepReport&) { seen.push_back(stand_in::counts()); };
  report = run(request, observer);
  return seen;
}

TEST_P(Kinds, GiveTheBitsOfHoldingEverythingInTheMemoryForetold) {
  const TrainingReport keep = run(small_training("cuda-host", "keep")), report = run(request());
  ASSERT_FALSE(report.refused) << report.refused->message;
  if (report.rounding) {
    ASSERT_EQ(report.losses.size(), keep.losses.size());
    for (std::size_t i = 0; i < keep.losses.size(); ++i) EXPECT_LE(std::abs(report.losses[i] / keep.losses[i] - 1), 1e-5);
    EXPECT_EQ(run(request()).parameters_sha256, report.parameters_sha256);
  } else {
    EXPECT_EQ(report.parameters_sha256, keep.parameters_sha256);
  }
  EXPECT_EQ(report.measured_peaks.device, report.predicted_peaks.device);
  EXPECT_EQ(report.measured_peaks.host, report.predicted_peaks.host);
  if (GetParam().disk) {
    EXPECT_GT(report.predicted_peaks.disk, 0);
  } else if (*GetParam().host_memory != '\0') {
    EXPECT_GT(report.predicted_peaks.host, 0);
  }
}

// Before the first step all is there that the card gives: its memory, pinned memory, streams and events.
TEST_P(Kinds, TakeNothingInAStep) {
  TrainingReport report;
  const std::vector<stand_in::Counts> steps = counts_of_steps(request(), report);
  ASSERT_EQ(steps.size(), 4U);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].allocations, steps[0].allocations);
    EXPECT_EQ(steps[i].pinned, steps[0].pinned);
    EXPECT_EQ(steps[i].made, steps[0].made);
  }
}

// One allocation, which all values, gradients and workspaces share, as large as the peak and the guard behind it.
TEST_P(Kinds, TakeTheCardsMemoryAtOnce) {
  const std::size_t before = stand_in::counts().allocations.size();
  const TrainingReport report = run(request());
  const std::vector<std::int64_t> allocations = stand_in::counts().allocations;
  ASSERT_EQ(allocations.size(), before + 1);
  EXPECT_GE(allocations.back(), report.predicted_peaks.device);
  EXPECT_LE(allocations.back(), report.predicted_peaks.device + 4096);
}

// Within a step the host waits for nothing: at its end once for each of the three streams. Between steps it writes the batch and
// reads what the step gave, a wait each, and looks at the guards behind the arenas. Copies of a step itself are of pinned memory,
// or else they would not run beside kernels.
TEST_P(Kinds, LetTheHostWaitAtTheEndOfAStepOnly) {
  TrainingReport report;
  const std::vector<stand_in::Counts> steps = counts_of_steps(request(), report);
  ASSERT_EQ(steps.size(), 4U);
  const std::int64_t works = steps[3].works - steps[2].works, waits = steps[3].waits - steps[2].waits,
                     unpinned = steps[3].unpinned_copies - steps[2].unpinned_copies;
  EXPECT_GT(works, 100);
  // x, labels, learning rate, step number, loss, and three counts of labels.
  EXPECT_LE(unpinned, 8);
  EXPECT_LE(waits, 3 + unpinned + 2);
  EXPECT_EQ(steps[2].waits - steps[1].waits, waits);
}

INSTANTIATE_TEST_SUITE_P(Plans, Kinds,
                         testing::Values(Kind{"keep", "keep", "", false}, Kind{"recompute", "checkpoint:segments=4", "", false},
                                         Kind{"swap", "vdnn-all", "64MiB", false},
                                         Kind{"tiles", "2ps-h:rows=4,stream=all", "64MiB", false},
                                         Kind{"disk", "vdnn-all", "16KiB", true},
                                         Kind{"updates_on_the_host", "fairscale", "64MiB", false}),
                         [](const auto& test) { return test.param.name; });

// Kernels, copies and lanes are timed by events: what is not measured is estimated.
TEST(StandIn, OpsAreTimedBeforeTheyArePlannedFor) {
  TrainingRequest request = small_training("cuda", "keep");
  request.task.planning.profile = "fresh";
  const TrainingReport report = run(request);
  ASSERT_FALSE(report.refused);
  EXPECT_GT(report.row.step_seconds, 0);
  EXPECT_EQ(report.measured_peaks.device, report.predicted_peaks.device);
}

}  // namespace
}  // namespace outsize
