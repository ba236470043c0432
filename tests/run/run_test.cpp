// A run of several programs over the same persistent values: training, evaluation, checkpoints, the learning rate.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "../batches.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/checkpoint.h"
#include "run/evaluation.h"
#include "run/learning_rate.h"

namespace outsize {
namespace {

namespace fs = std::filesystem;

class Run : public testing::Test {
 protected:
  Run() { register_ops(); }

  // A trainer of a small model, with an evaluator in its memory if asked for.
  struct Parts {
    std::unique_ptr<Trainer> trainer;
    std::unique_ptr<Evaluator> evaluator;
    std::unique_ptr<Loader> data;
  };

  Parts make(const char* model, bool evaluate, std::int64_t evaluation_batch = 4) {
    const ModelOptions options{.batch = 4, .image_height = 32, .image_width = 32, .classes = 7, .width = 0.125};
    const Graph forward = build_model(model, options);
    TrainingGraph training = make_training_graph(forward, {});
    PrepareOptions choices;
    choices.planner = "keep";
    const Profile profile{find_device("cpu"), {}};
    Prepared prepared = prepare(training.graph, *backend_, profile, choices);
    Parts parts;
    parts.data = synthetic_batches(training.batch_spec(), 3);
    if (!evaluate) {
      parts.trainer = std::make_unique<Trainer>(std::move(training), std::move(prepared), *backend_, 5);
      return parts;
    }
    const PersistentLayout layout = layout_of(training.graph, prepared.program);
    ModelOptions other = options;
    other.batch = evaluation_batch;
    EvaluationGraph evaluation = make_evaluation_graph(build_model(model, other));
    choices.layout = &layout;
    Prepared evaluated = prepare(evaluation.graph, *backend_, profile, choices);
    const std::shared_ptr<Memory> memory =
        make_memory(std::array<const Program*, 2>{&prepared.program, &evaluated.program}, *backend_, {});
    parts.trainer = std::make_unique<Trainer>(std::move(training), std::move(prepared), *backend_, 5, memory);
    parts.evaluator = std::make_unique<Evaluator>(std::move(evaluation), std::move(evaluated), *backend_, memory);
    return parts;
  }

  static double step(Parts& parts, std::int64_t index) {
    Batch batch;
    parts.data->make(index, batch);
    return parts.trainer->step(batch, 0.05);
  }

  std::string directory(const char* name) const {
    const fs::path path = fs::path(testing::TempDir()) / name;
    fs::remove_all(path);
    return path.string();
  }

  std::unique_ptr<Backend> backend_ = make_backend("cpu", 2);
};

// Without norms and dropout, evaluation computes what a training step computes before it updates.
TEST_F(Run, EvaluationSeesTheTrainersParameters) {
  Parts parts = make("mlp", true);
  for (std::int64_t i = 0; i < 3; ++i) {
    Batch batch;
    parts.data->make(i, batch);
    const Evaluation found = parts.evaluator->run(batch);
    EXPECT_EQ(found.loss, parts.trainer->step(batch, 0.05));
    EXPECT_EQ(found.rows, 4);
    EXPECT_GE(found.correct, 0);
    EXPECT_LE(found.correct, found.correct5);
    EXPECT_LE(found.correct5, 4);
  }
}

TEST_F(Run, EvaluationChangesNothing) {
  Parts with = make("resnet18", true), without = make("resnet18", false);
  for (std::int64_t i = 0; i < 3; ++i) {
    Batch batch;
    with.data->make(100 + i, batch);
    with.evaluator->run(batch);
    EXPECT_EQ(step(with, i), step(without, i));
  }
  EXPECT_EQ(with.trainer->parameters_sha256(), without.trainer->parameters_sha256());
  EXPECT_EQ(with.trainer->states_sha256(), without.trainer->states_sha256());
}

// A norm that uses running statistics treats every sample alone: batches of 4 and of 2 give the same.
TEST_F(Run, EvaluationDoesNotMixSamples) {
  Parts four = make("resnet18", true, 4), two = make("resnet18", true, 2);
  Batch batch;
  for (std::int64_t i = 0; i < 3; ++i) {
    step(four, i);
    step(two, i);
  }
  four.data->make(50, batch);
  const Evaluation whole = four.evaluator->run(batch);
  Evaluation halves;
  for (std::size_t half = 0; half < 2; ++half) {
    const auto part = [half](const std::vector<std::byte>& bytes) {
      const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2);
      return half == 0 ? std::vector<std::byte>(bytes.begin(), middle) : std::vector<std::byte>(middle, bytes.end());
    };
    halves.add(two.evaluator->run({part(batch.x), part(batch.y)}));
  }
  EXPECT_EQ(halves.samples, 4);
  EXPECT_EQ(halves.correct, whole.correct);
  EXPECT_EQ(halves.correct5, whole.correct5);
  EXPECT_NEAR(halves.loss, whole.loss, 1e-5 * std::abs(whole.loss));
}

TEST_F(Run, EvaluationDropsNothing) {
  const EvaluationGraph evaluation = make_evaluation_graph(build_model("vgg11", {.batch = 1, .width = 0.01}));
  EXPECT_FALSE(evaluation.graph.find_value("random_key").valid());
  for (const Op& op : evaluation.graph.ops()) EXPECT_NE(op.def->kind(), "dropout");
  const EvaluationGraph tokens =
      make_evaluation_graph(build_model("gpt2", {.batch = 1, .sequence = 4, .classes = 9, .width = 0.1}));
  EXPECT_FALSE(tokens.graph.find_value("random_key").valid());
  EXPECT_TRUE(tokens.correct5.valid());
}

RunState state_of(const Trainer& trainer) {
  RunState state;
  state.model = "resnet18";
  state.settings = "lr 0.05";
  state.backend = "cpu";
  state.seed = 5;
  state.step = trainer.steps();
  return state;
}

TEST_F(Run, CheckpointContinuesBitwise) {
  const std::string place = directory("continued");
  Parts whole = make("resnet18", false), first = make("resnet18", false), second = make("resnet18", false);
  for (std::int64_t i = 0; i < 5; ++i) step(whole, i);
  for (std::int64_t i = 0; i < 3; ++i) step(first, i);
  write_checkpoint(place, state_of(*first.trainer), *first.trainer);
  const Checkpoint found = find_checkpoint(place);
  EXPECT_EQ(found.state.step, 3);
  second.trainer->load(SafetensorsFile(found.weights));
  EXPECT_EQ(second.trainer->steps(), 3);
  for (std::int64_t i = 3; i < 5; ++i) step(second, i);
  EXPECT_EQ(second.trainer->parameters_sha256(), whole.trainer->parameters_sha256());
  EXPECT_EQ(second.trainer->states_sha256(), whole.trainer->states_sha256());
}

// The newest that is whole: a description without tensors, or with too few bytes of them, is passed over; old ones are removed.
TEST_F(Run, CheckpointThatIsNotWholeIsPassedOver) {
  const std::string place = directory("passed_over");
  Parts parts = make("mlp", false);
  for (std::int64_t i = 0; i < 4; ++i) {
    step(parts, i);
    write_checkpoint(place, state_of(*parts.trainer), *parts.trainer);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(place), {}), 4);  // two checkpoints of two files
  EXPECT_EQ(find_checkpoint(place).state.step, 4);
  fs::resize_file(find_checkpoint(place).weights, 100);
  EXPECT_EQ(find_checkpoint(place).state.step, 3);
  std::ofstream(fs::path(place) / "checkpoint-000000003.json") << "{";
  try {
    find_checkpoint(place);
    FAIL() << "a checkpoint was found";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("holds no whole checkpoint"), std::string::npos) << message;
    EXPECT_NE(message.find("has 100 bytes"), std::string::npos) << message;
    EXPECT_NE(message.find("is not the description of a checkpoint"), std::string::npos) << message;
  }
}

TEST_F(Run, CheckpointOfAnotherRunIsRefused) {
  const RunState then{.model = "resnet18", .settings = "lr 0.1", .backend = "cpu", .seed = 1};
  RunState now = then;
  expect_same_run(then, now, "d");
  now.model = "resnet50";
  try {
    expect_same_run(then, now, "d");
    FAIL() << "it was taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "d: the checkpoint's model is resnet18, but this run's is resnet50");
  }
}

TEST(LearningRate, Schedules) {
  const LearningRate constant{.base = 0.1, .warm_up = 4};
  EXPECT_DOUBLE_EQ(constant.at(0), 0.025);  // 0.1 · 1/4
  EXPECT_DOUBLE_EQ(constant.at(3), 0.1);
  EXPECT_DOUBLE_EQ(constant.at(1000), 0.1);
  const LearningRate step{.kind = LearningRate::Kind::step, .base = 1, .warm_up = 2, .every = 10, .factor = 0.5};
  EXPECT_DOUBLE_EQ(step.at(11), 1);  // the tenth step after the warm-up
  EXPECT_DOUBLE_EQ(step.at(12), 0.5);
  EXPECT_DOUBLE_EQ(step.at(32), 0.125);
  const LearningRate cosine{.kind = LearningRate::Kind::cosine, .base = 2, .warm_up = 10, .total = 110, .least = 1};
  EXPECT_DOUBLE_EQ(cosine.at(10), 2);
  EXPECT_NEAR(cosine.at(60), 1.5, 1e-12);  // half way: the mean
  EXPECT_NEAR(cosine.at(110), 1, 1e-12);
  EXPECT_NEAR(cosine.at(500), 1, 1e-12);
}

}  // namespace
}  // namespace outsize
