// Every planner on every rung of a ladder of budgets: it refuses, or it keeps the budget and trains as `keep` does, bit by bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "../trained.h"
#include "cost/devices.h"
#include "definitions.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/batch_spec.h"

namespace outsize {
namespace {

constexpr std::int64_t kSteps = 3;
constexpr std::uint64_t kWeights = 3;  // the seed of what weights begin as

struct Case {
  std::string name;
  ModelOptions options;
  bool is_deep = false;    // its norms are shifted, see shift_norms()
  std::uint64_t data = 5;  // the seed of the batches
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Ladder : public testing::TestWithParam<Case> {
 protected:
  ~Ladder() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  Prepared prepare_by(std::string_view planner, std::int64_t budget) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = budget;
    return prepare(step_.graph, *backend_, profile_, options).take();
  }

  Trained train(Prepared prepared, std::int64_t budget) {
    const std::int64_t predicted = prepared.program.peak_bytes.device;
    Trainer trainer({step_, std::move(prepared)}, *backend_, kWeights);
    trainer.load(SafetensorsFile(start()));
    Trained trained = outsize::train(trainer, kSteps, GetParam().data);
    EXPECT_EQ(trainer.measured_peak_bytes(), predicted);
    EXPECT_LE(predicted, budget);
    return trained;
  }

  static StepGraph step_of(const Case& c) {
    register_ops();
    return make_training_graph(build_model(c.name, c.options), {});
  }

  // The steps in f64, in many times the seconds; made once.
  const Trained& truth() {
    if (truth_.losses.empty()) {
      Case precise = GetParam();
      precise.options.dtype = DType::f64;
      const StepGraph step = step_of(precise);
      const std::unique_ptr<Backend> reference = make_backend("reference", 2);
      PrepareOptions options;
      options.planner = "keep";
      Trainer trainer({step, prepare(step.graph, *reference, profile_, options).take()}, *reference, kWeights);
      trainer.load(SafetensorsFile(start()));
      truth_ = outsize::train(trainer, kSteps, GetParam().data);
    }
    return truth_;
  }

  // The file of weights that every training begins with.
  const std::string& start() {
    if (start_.empty()) {
      folder_ = std::filesystem::path(testing::TempDir()) / fmt::format("ladder-{}-{}", GetParam().name, getpid());
      std::filesystem::create_directories(folder_);
      start_ = (folder_ / "start.safetensors").string();
      Trainer drawn({step_, prepare_by("keep", kNoLimit)}, *backend_, kWeights);
      if (GetParam().is_deep) shift_norms(drawn, start_);
      drawn.save(start_);
    }
    return start_;
  }

  StepGraph step_ = step_of(GetParam());
  std::unique_ptr<Backend> backend_ = make_backend("cpu", std::getenv("OUTSIZE_FULL") ? 2 : 1);  // tests run beside each other
  Profile profile_{find_device("cpu"), {}};
  Trained truth_;
  std::filesystem::path folder_;
  std::string start_;
};

TEST_P(Ladder, RefusesOrTrainsAsKeepDoes) {
  Prepared keep = prepare_by("keep", kNoLimit);
  const std::int64_t whole = keep.program.peak_bytes.device;
  const Trained expected = train(std::move(keep), kNoLimit);
  const Rounding rounding{.truth = [this]() -> const Trained& { return truth(); }};
  const PlanRequest request{
      .graph = step_.graph, .profile = profile_, .storage = backend_->storage(), .workspace = [this](const Call& call) {
        return backend_->kernel(call)->workspace_bytes();
      }};
  const Definitions definitions(step_, request);
  std::string table;
  std::set<std::string> trained;
  std::map<std::string_view, int> lowest;  // by planner: the least per cent that it fits in
  for (const Planner& planner : planners()) {
    // What packing may lose is in packing_test.
    const double needed = 1.03 * static_cast<double>(definitions.bytes_of(planner.name));
    table += fmt::format("{:<16} {:>3.0f} %:", planner.name, 100 * needed / static_cast<double>(whole));
    bool refused = false;
    for (const int percent : {100, 90, 75, 60, 50, 40, 30}) {
      const std::int64_t budget = whole * percent / 100;
      try {
        Prepared prepared = prepare_by(planner.name, budget);
        EXPECT_FALSE(refused) << planner.name << " fits in " << percent << " % but not in more";
        // Many budgets and planners come to the same program, but for the first line, which names who made it.
        const std::string program = print_program(step_.graph, prepared.program);
        if (trained.insert(program.substr(program.find('\n'))).second) {
          const bool to_rounding = rounds(step_.graph, prepared.plan);
          expect_same(train(std::move(prepared), budget), expected, to_rounding ? &rounding : nullptr,
                      fmt::format("{} in {} %", planner.name, percent));
        }
        table += fmt::format(" {:>3} %", percent);
        lowest[planner.name] = percent;
      } catch (const BudgetError& error) {
        refused = true;
        EXPECT_LT(percent, 100) << planner.name << " refuses what `keep` fits in";
        EXPECT_LT(static_cast<double>(budget), needed)
            << planner.name << " refuses " << percent << " %, which its definition fits in";
        EXPECT_GT(error.refusal().missing(), 0);
        EXPECT_NE(std::string(error.what()).find("the peak is at op "), std::string::npos) << error.what();
      }
    }
    table += "\n";
  }
  std::printf("%s", table.c_str());
  EXPECT_LE(lowest.at("vdnn"), lowest.at("vdnn-all"));  // which is its lowest threshold
}

const std::vector<Case> kCases{
    // The update of its first linear layer takes weight, gradient and momentum, 77 MB, at once: only where the host does it, less
    // than all will do.
    {"vgg16", {.batch = 2, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.25}},
    {"resnet50", {.batch = 8, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.125}, true, 7},
    {"densenet121", {.batch = 4, .image_height = 64, .image_width = 64, .classes = 10, .width = 0.5}, true},
    {"inception_v3", {.batch = 2, .image_height = 299, .image_width = 299, .classes = 10, .width = 0.125}, true, 7},
    {"unet3d", {.batch = 1, .image_height = 32, .image_width = 32, .image_depth = 32, .width = 0.125}, true},
    {"bert-base", {.batch = 8, .sequence = 32, .classes = 100, .width = 0.09}},
    {"gpt2", {.batch = 8, .sequence = 64, .classes = 100, .width = 0.09}},
};

// As published, some minutes each: `OUTSIZE_FULL=1 test_train --gtest_filter='Full*'`.
std::vector<Case> full_cases() {
  if (!std::getenv("OUTSIZE_FULL")) return {};
  return {
      {"vgg16", {.batch = 2}},
      {"resnet50", {.batch = 4}, true},
      {"densenet121", {.batch = 4}, true},
      {"inception_v3", {.batch = 4}, true},
      // In f64, which tiles are held to where f32 is off, volumes of 64 a side take hours.
      {"unet3d", {.batch = 1, .image_height = 32, .image_width = 32, .image_depth = 32}},
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
