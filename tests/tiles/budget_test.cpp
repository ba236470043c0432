// One budget for images and batches of any size.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <map>

#include "../trained.h"
#include "cost/devices.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "run/batch_spec.h"
#include "run/trainer.h"
#include "search/prepare.h"

namespace outsize {
namespace {

StepGraph step_of(const std::string& name, const ModelOptions& options) {
  register_ops();
  return make_training_graph(build_model(name, options), {});
}

struct StepRun {
  std::int64_t peak = 0;
  bool tiled = false;
  Trained trained;
};

// A data set in which no relu or maximum is so near to taking another side that rounding makes it.
constexpr std::uint64_t kData = 8;

// Three steps, and the bytes they took; as many as predicted.
StepRun run(const StepGraph& step, std::string_view planner, std::int64_t budget) {
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  PrepareOptions options;
  options.planner = planner;
  options.budgets.device = budget;
  Prepared prepared = prepare(step.graph, *backend, profile, options).take();
  StepRun result{.tiled = rounds(step.graph, prepared.plan)};
  Trainer trainer({step, std::move(prepared)}, *backend, 3);
  const std::string weights = (std::filesystem::path(testing::TempDir()) / fmt::format("budget-{}", getpid())).string();
  shift_norms(trainer, weights);
  std::filesystem::remove(weights);
  result.trained = train(trainer, 3, kData);
  result.peak = trainer.measured_peak_bytes();
  EXPECT_EQ(result.peak, trainer.predicted_peak_bytes());
  return result;
}

void expect_same_but_for_rounding(const StepRun& found, const StepRun& expected, const std::string& what) {
  const Rounding rounding;
  expect_same(found.trained, expected.trained, found.tiled ? &rounding : nullptr, what);
}

// A quarter of what the largest of them takes as a whole; the smallest fits as it is.
TEST(OneBudget, TakesImagesOfAnySize) {
  const auto step = [](std::int64_t size) {
    return step_of("vgg16-features", {.batch = 1, .image_height = size, .image_width = size, .width = 0.125});
  };
  const std::int64_t budget = run(step(256), "keep", kNoLimit).peak / 4;
  for (const std::int64_t size : {64, 256, 512}) {
    const StepRun keep = run(step(size), "keep", kNoLimit);
    for (const char* planner : {"overl-h", "2ps-h"}) {
      const StepRun tiled = run(step(size), planner, budget);
      EXPECT_LE(tiled.peak, budget) << planner << " at " << size;
      EXPECT_EQ(tiled.tiled, size > 64) << planner << " at " << size;
      expect_same_but_for_rounding(tiled, keep, fmt::format("{} at {}", planner, size));
    }
  }
}

// Statistics of a batch are those of the whole batch.
TEST(OneBudget, TakesBatchesOfAnySize) {
  const auto step = [](std::int64_t batch) {
    return step_of("resnet18", {.batch = batch, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.25});
  };
  const std::int64_t budget = run(step(8), "keep", kNoLimit).peak;
  for (const std::int64_t batch : {8, 32, 96}) {
    const StepRun keep = run(step(batch), "keep", kNoLimit);
    const StepRun tiled = run(step(batch), "2ps-h", budget);
    EXPECT_LE(tiled.peak, budget) << batch;
    EXPECT_EQ(tiled.tiled, batch > 8) << batch;
    expect_same_but_for_rounding(tiled, keep, fmt::format("{} samples", batch));
  }
}

// The logits of one sample alone are larger than the budget.
TEST(OneBudget, TakesAVocabularyOfAnySize) {
  const StepGraph step = step_of("gpt2", {.batch = 1, .sequence = 1024, .classes = 8192, .width = 1.0 / 12});
  const ValueType& logits = step.graph.value(step.graph.find_value("lm_head")).type;
  const std::int64_t budget = logits.elements() * size_of(logits.dtype);
  const StepRun keep = run(step, "keep", kNoLimit);
  EXPECT_GT(keep.peak, 3 * budget);
  for (const char* planner : {"overl", "2ps-h", "tsplit"}) {
    const StepRun tiled = run(step, planner, budget);
    EXPECT_LE(tiled.peak, budget) << planner;
    expect_same_but_for_rounding(tiled, keep, planner);
  }
}

// One weight alone is larger than the budget.
TEST(OneBudget, TakesWeightsOfAnySize) {
  const ModelOptions model{.batch = 1, .image_height = 224, .image_width = 224, .classes = 10, .width = 0.25};
  const StepGraph step = step_of("vgg16", model);
  const ValueType& weight = step.graph.value(step.graph.find_value("classifier.0.weight")).type;
  const std::int64_t budget = weight.elements() * size_of(weight.dtype);
  const StepRun keep = run(step, "keep", kNoLimit);
  const StepRun split = run(step, "overl", budget);
  EXPECT_LE(split.peak, budget);
  expect_same_but_for_rounding(split, keep, "split");

  // Evaluation reads them from where training keeps them.
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  PrepareOptions options;
  options.planner = "overl";
  options.budgets.device = budget;
  const Prepared training = prepare(step.graph, *backend, profile, options).take();
  const PersistentLayout layout = layout_of(step.graph, training.program);
  EXPECT_EQ(layout.places.at("classifier.0.weight").tier, Tier::host);
  options.layout = &layout;
  const StepGraph evaluation = make_step_graph(build_model("vgg16", model), StepKind::evaluate, {});
  EXPECT_LE(prepare(evaluation.graph, *backend, profile, options).take().program.peak_bytes.device, budget);
}

// A weight of few rows is cut between any of them: only maps hold whole blocks of channels.
TEST(OneBudget, SplitsWeightsOfFewRows) {
  register_ops();
  const StepGraph step = make_training_graph(parse_graph(R"(graph flat
input x f32[2, 8192]
input labels i32[2]
param fc.weight f32[10, 8192] init=normal:0.02
fc: z = linear(x, fc.weight)
loss: loss = softmax_cross_entropy(z, labels)
output loss
)",
                                                         "flat"),
                                             {});
  const StepRun keep = run(step, "keep", kNoLimit);
  for (const char* planner : {"overl", "2ps-h"}) {
    const StepRun split = run(step, planner, keep.peak / 2);
    EXPECT_LE(split.peak, keep.peak / 2) << planner;
    EXPECT_TRUE(split.tiled) << planner;
    expect_same_but_for_rounding(split, keep, planner);
  }
}

// Training keeps some weights in host memory; evaluation must not run their layers in tiles, which would want them on the device.
TEST(OneBudget, EvaluatesWithWeightsWhereTheyAre) {
  const ModelOptions model{.batch = 2, .image_height = 64, .image_width = 64, .width = 0.125};
  const StepGraph step = step_of("vgg16-features", model);
  const StepGraph evaluation = make_step_graph(build_model("vgg16-features", model), StepKind::evaluate, {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  const std::int64_t whole = run(step, "keep", kNoLimit).peak;
  int streamed = 0;
  for (const char* planner : {"overl", "2ps", "overl-h", "2ps-h"})
    for (const int percent : {17, 20, 25, 30, 35}) {
      PrepareOptions options;
      options.planner = planner;
      options.budgets.device = whole * percent / 100;
      const Prepared training = prepare(step.graph, *backend, profile, options).take();
      const PersistentLayout layout = layout_of(step.graph, training.program);
      for (const auto& [name, place] : layout.places) streamed += place.tier == Tier::host;
      options.layout = &layout;
      EXPECT_LE(prepare(evaluation.graph, *backend, profile, options).take().program.peak_bytes.device, options.budgets.device)
          << planner << " in " << percent << " %";
    }
  EXPECT_GT(streamed, 0);
}

std::int64_t resident_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// The program is as short as its tiles are alike.
TEST(OneBudget, LowersVgg16OfAHundredThousandRows) {
  const StepGraph step = step_of("vgg16", {.batch = 1, .image_height = 100000, .image_width = 100000});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("rtx-2080ti-11"), {}};
  PrepareOptions options;
  options.planner = "2ps-h";
  options.budgets.device = std::int64_t{11} << 30;
  options.budgets.host = std::int64_t{100} << 40;
  [[maybe_unused]] const std::int64_t before = resident_kib();
  [[maybe_unused]] const std::clock_t begin = std::clock();
  const Prepared prepared = prepare(step.graph, *backend, profile, options).take();
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
  EXPECT_LT(resident_kib() - before, 1024 * 1024);
#endif
  EXPECT_LE(prepared.program.peak_bytes.device, options.budgets.device);
  EXPECT_GT(figures_of(step.graph, prepared).tiles, 500);
  EXPECT_LT(prepared.program.instructions.size(), 100000);
}

// What a plan for less takes, more has room for; and what lacks is more than nothing.
TEST(Refusals, AreOfWhatNoPlanFits) {
  const StepGraph step = step_of("resnet18", {.batch = 4, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  PrepareOptions options;
  for (const char* planner : {"overl", "2ps-h"}) {
    std::int64_t taken = 0;  // by the first plan that is found
    options.planner = planner;
    for (options.budgets.device = 300'000; options.budgets.device < 900'000; options.budgets.device += 20'000) try {
        const std::int64_t peak = prepare(step.graph, *backend, profile, options).take().program.peak_bytes.device;
        taken = taken == 0 ? peak : taken;
      } catch (const BudgetError& error) {
        EXPECT_EQ(taken, 0) << planner << " refuses " << options.budgets.device;
        EXPECT_GT(error.refusal().missing(), 0);
        EXPECT_EQ(error.refusal().tier, Tier::device);
      }
    EXPECT_GT(taken, 0) << planner;
  }
}

// A budget of the device is refused only where no more room on the host would help, and one of the host only where it would.
TEST(Refusals, NameTheTierThatLacks) {
  const std::vector<std::pair<std::string, ModelOptions>> models{
      {"vgg16-features", {.batch = 1, .image_height = 256, .image_width = 256, .width = 0.125}},
      {"resnet18", {.batch = 16, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125}}};
  const Profile profile{find_device("titan-rtx"), {}};
  std::map<Tier, int> refusals;
  for (const auto& [name, options] : models) {
    const StepGraph step = step_of(name, options);
    const auto whole = static_cast<double>(run(step, "keep", kNoLimit).peak);
    for (const char* planner : {"sft", "overl", "2ps-h"})
      for (const double part : {0.5, 0.25, 0.1})
        for (const double host : {0.0, 0.01, 0.2}) {
          const auto plan_with = [&](double host_bytes) {
            return find_planner(planner).make(
                {.graph = step.graph,
                 .profile = profile,
                 .storage = {},
                 .budgets = {.device = static_cast<std::int64_t>(part * whole), .host = static_cast<std::int64_t>(host_bytes)}});
          };
          const Planned<Plan> plan = plan_with(host * whole);
          if (plan) continue;
          const std::string what = fmt::format("{}, {}, {} of the device and {} of the host", name, planner, part, host);
          ++refusals[plan.refusal().tier];
          EXPECT_GT(plan.refusal().missing(), 0) << what;
          // Where there is no such tier at all, either may be named.
          if (host > 0 || plan.refusal().tier == Tier::host) {
            EXPECT_EQ(plan_with(4 * whole).fits(), plan.refusal().tier == Tier::host) << what;
          }
        }
  }
  EXPECT_GT(refusals[Tier::device], 5);
  EXPECT_GT(refusals[Tier::host], 5);
}

// What such a planner refuses is not asked for again with less.
TEST(Refusals, StandForFewerBytes) {
  const std::vector<std::pair<std::string, ModelOptions>> models{
      {"resnet18", {.batch = 4, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.25}},
      {"vgg16", {.batch = 2, .image_height = 32, .image_width = 32, .classes = 10, .width = 0.125}},
      {"gpt2", {.batch = 2, .sequence = 32, .classes = 100, .width = 0.09}}};
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Profile profile{find_device("cpu"), {}};
  int refusals = 0;
  for (const auto& [name, options] : models) {
    const StepGraph step = step_of(name, options);
    const auto keep =
        static_cast<double>(prepare(step.graph, *backend, profile, {.planner = "keep"}).take().program.peak_bytes.device);
    for (const Planner& planner : planners()) {
      if (!planner.refuses_less) continue;
      std::int64_t refused = 0;
      for (double budget = keep; budget > keep / 100; budget *= 0.75) {
        const PlanRequest request{.graph = step.graph,
                                  .profile = profile,
                                  .storage = backend->storage(),
                                  .budgets = {.device = static_cast<std::int64_t>(budget)}};
        if (planner.make(request)) {
          EXPECT_EQ(refused, 0) << name << ": " << planner.name << " takes " << request.budgets.device;
          continue;
        }
        if (refused == 0) refused = request.budgets.device;
        ++refusals;
      }
    }
  }
  EXPECT_GT(refusals, 50);
}

}  // namespace
}  // namespace outsize
