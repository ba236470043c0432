// Every planner on every rung of a ladder of budgets: it refuses, or it keeps the budget and trains as `keep` does, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <ranges>
#include <set>

#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "trained.h"

namespace outsize {
namespace {

struct Case {
  std::string name;
  ModelOptions options;
  int reached = 50;      // some planner fits in so many per cent of what `keep` needs
  bool is_deep = false;  // f32 itself is wrong by more than tiles may be
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Ladder : public testing::TestWithParam<Case> {
 protected:
  Prepared prepare_by(std::string_view planner, std::int64_t budget) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = budget;
    return prepare(step_.graph, *backend_, profile_, options).take();
  }

  Trained train(Prepared prepared, std::int64_t budget) {
    const std::int64_t predicted = prepared.program.peak_bytes.device;
    Trainer trainer({step_, std::move(prepared)}, *backend_, 3);
    Trained trained = outsize::train(trainer, 3);
    EXPECT_EQ(trainer.measured_peak_bytes(), predicted);
    EXPECT_LE(predicted, budget);
    return trained;
  }

  static StepGraph step_of(const Case& c) {
    register_ops();
    return make_training_graph(build_model(c.name, c.options), {});
  }

  // What a step comes to in f64, in many times its seconds; made once.
  const std::vector<std::vector<double>>& truth() {
    if (truth_.empty()) {
      Case precise = GetParam();
      precise.options.dtype = DType::f64;
      const StepGraph step = step_of(precise);
      const std::unique_ptr<Backend> reference = make_backend("reference", 2);
      PrepareOptions options;
      options.planner = "keep";
      Trainer trainer({step, prepare(step.graph, *reference, profile_, options).take()}, *reference, 3);
      truth_ = outsize::train(trainer, 1).first;
    }
    return truth_;
  }

  StepGraph step_ = step_of(GetParam());
  std::unique_ptr<Backend> backend_ = make_backend("cpu", std::getenv("OUTSIZE_FULL") ? 2 : 1);  // tests run beside each other
  Profile profile_{find_device("cpu"), {}};
  std::vector<std::vector<double>> truth_;
};

TEST_P(Ladder, RefusesOrTrainsAsKeepDoes) {
  Prepared keep = prepare_by("keep", kNoLimit);
  const std::int64_t whole = keep.program.peak_bytes.device;
  const Trained expected = train(std::move(keep), kNoLimit);
  std::string table;
  std::set<std::string> trained;
  std::map<std::string_view, int> lowest;  // by planner: the least per cent that it fits in
  for (const Planner& planner : planners()) {
    table += fmt::format("{:<16}", planner.name);
    bool refused = false;
    for (const int percent : {100, 90, 75, 60, 50, 40, 30}) {
      const std::int64_t budget = whole * percent / 100;
      try {
        Prepared prepared = prepare_by(planner.name, budget);
        EXPECT_FALSE(refused) << planner.name << " fits in " << percent << " % but not in more";
        // Many budgets and planners come to the same program, but for the first line, which names who made it.
        const std::string program = print_program(step_.graph, prepared.program);
        if (trained.insert(program.substr(program.find('\n'))).second) {
          const bool rounding = prepared.plan.rounding();
          expect_same(train(std::move(prepared), budget), expected, rounding, fmt::format("{} in {} %", planner.name, percent),
                      GetParam().is_deep ? Truth([this] { return truth(); }) : nullptr);
        }
        table += fmt::format(" {:>3} %", percent);
        lowest[planner.name] = percent;
      } catch (const BudgetError& error) {
        refused = true;
        EXPECT_LT(percent, 100) << planner.name << " refuses what `keep` fits in";
        EXPECT_GT(error.refusal().missing(), 0);
        EXPECT_NE(std::string(error.what()).find("the peak is at op "), std::string::npos) << error.what();
      }
    }
    table += "\n";
  }
  std::printf("%s", table.c_str());
  EXPECT_LE(std::ranges::min(std::views::values(lowest)), GetParam().reached);
  EXPECT_LE(lowest.at("vdnn"), lowest.at("vdnn-all"));  // which is its lowest threshold
}

const std::vector<Case> kCases{
    // The update of its first linear layer takes weight, gradient and momentum, 77 MB, at once: only where the host does it, less
    // than all will do.
    {"vgg16", {.batch = 2, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.25}, 30},
    {"resnet50", {.batch = 8, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125}, 30, true},
    {"densenet121", {.batch = 4, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.5}, 40},
    {"inception_v3", {.batch = 2, .image_height = 299, .image_width = 299, .classes = 10, .width = 0.125}, 40, true},
    {"unet3d", {.batch = 1, .image_height = 32, .image_width = 32, .image_depth = 32, .width = 0.125}},
    {"bert-base", {.batch = 8, .sequence = 64, .classes = 100, .width = 0.09}, 30},
    {"gpt2", {.batch = 8, .sequence = 64, .classes = 100, .width = 0.09}, 30},
};

// As published, some minutes each: `OUTSIZE_FULL=1 test_train --gtest_filter='Full*'`.
std::vector<Case> full_cases() {
  if (!std::getenv("OUTSIZE_FULL")) return {};
  return {
      {"vgg16", {.batch = 2}, 60},
      {"resnet50", {.batch = 4}},
      {"densenet121", {.batch = 4}},
      {"inception_v3", {.batch = 4}},
      // In f64, which tiles are held to where f32 is off, volumes of 64 a side take hours.
      {"unet3d", {.batch = 1, .image_height = 32, .image_width = 32, .image_depth = 32}, 40, true},
      {"bert-base", {.batch = 2, .sequence = 128}},
      {"gpt2", {.batch = 2, .sequence = 128}},
  };
}

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, Ladder, testing::ValuesIn(kCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Full, Ladder, testing::ValuesIn(full_cases()), name_of_case);

// A budget below the weights themselves: they and the optimizer's state live in host memory.
TEST(BelowTheWeights, TrainsAsKeepDoes) {
  register_ops();
  const std::vector<Case> cases{{"mlp", {.batch = 2, .image_height = 28, .image_width = 28, .classes = 10}},
                                {"bert-base", {.batch = 1, .sequence = 16, .classes = 50, .width = 0.25}},
                                {"gpt2", {.batch = 1, .sequence = 16, .classes = 50, .width = 0.25}}};
  for (const Case& c : cases) {
    const StepGraph step = make_training_graph(build_model(c.name, c.options), {.optimizer = Optimizer::adamw});
    const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
    const Profile profile{find_device("cpu"), {}};
    std::int64_t weights = 0;
    for (const Value& value : step.graph.values())
      if (value.role == Role::parameter && !value.producer) weights += value.type.elements() * size_of(value.type.dtype);
    const auto train = [&](const char* planner, std::int64_t budget) {
      PrepareOptions options;
      options.planner = planner;
      options.budgets.device = budget;
      Prepared prepared = prepare(step.graph, *backend, profile, options).take();
      EXPECT_LE(prepared.program.peak_bytes.device, budget);
      Trainer trainer({step, std::move(prepared)}, *backend, 3);
      const std::unique_ptr<Loader> data = synthetic_batches(batch_spec_of(step), 5);
      Batch batch;
      for (std::int64_t i = 0; i < 3; ++i) {
        data->make(i, batch);
        trainer.step(batch, 0.01);
      }
      EXPECT_EQ(trainer.measured_peak_bytes(), trainer.predicted_peak_bytes());
      return trainer.parameters_sha256() + trainer.states_sha256();
    };
    EXPECT_EQ(train("fairscale", weights - 1), train("keep", kNoLimit)) << c.name;
    EXPECT_EQ(train("zero-offload", 3 * weights), train("keep", kNoLimit)) << c.name;  // with Adam's state they are thrice that
  }
}

}  // namespace
}  // namespace outsize
