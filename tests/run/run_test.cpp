// A run of several programs over the same persistent values: training, evaluation, checkpoints, the learning rate.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "../batches.h"
#include "../close.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "run/checkpoint.h"
#include "run/learning_rate.h"
#include "run/trainer.h"

namespace outsize {
namespace {

namespace fs = std::filesystem;

class Run : public testing::Test {
 protected:
  Run() { register_ops(); }

  // A trainer of a small model, which can also evaluate, and take batches of other sizes and several a step.
  struct Parts {
    std::unique_ptr<Trainer> trainer;
    std::unique_ptr<Loader> data;
  };

  static Graph model_of(const char* model, const Dims& x_shape) {
    return build_model(
        model,
        {.batch = x_shape[0], .image_height = x_shape[2], .image_width = x_shape[3], .classes = 7, .width = 0.125, .dropout = 0});
  }

  Parts make(const char* model, StepKind kind = StepKind::whole, const TrainingOptions& options = {.accuracy = true}) {
    const Dims shape{4, 3, 32, 32};
    const Profile profile{find_device("cpu"), {}};
    PrepareOptions choices;
    choices.planner = "keep";
    const auto program = [=, this](StepKind wanted, const Dims& x_shape, const PersistentLayout* layout) {
      StepProgram made{make_step_graph(model_of(model, x_shape), wanted, options), {}};
      PrepareOptions chosen = choices;
      chosen.layout = layout;
      made.prepared = prepare(made.step.graph, *backend_, profile, chosen).take();
      return made;
    };
    StepProgram main = program(kind, shape, nullptr);
    Parts parts;
    parts.data = synthetic_batches(batch_spec_of(main.step), 3);
    parts.trainer = std::make_unique<Trainer>(std::move(main), *backend_, 5, std::string(),
                                              [program](StepKind wanted, const Dims& x_shape, const PersistentLayout& layout) {
                                                return program(wanted, x_shape, &layout);
                                              });
    return parts;
  }

  // Samples [from, to) of a batch.
  static Batch part_of(const Batch& batch, std::int64_t from, std::int64_t to) {
    const auto cut = [&](const std::vector<std::byte>& bytes) {
      const auto each = static_cast<std::ptrdiff_t>(bytes.size()) / batch.samples;
      return std::vector<std::byte>(bytes.begin() + from * each, bytes.begin() + to * each);
    };
    Batch part;
    part.x = cut(batch.x);
    part.y = cut(batch.y);
    part.samples = to - from;
    part.x_shape = batch.x_shape;
    part.y_shape = batch.y_shape;
    part.x_shape[0] = part.y_shape[0] = to - from;
    return part;
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
  Parts parts = make("mlp");
  for (std::int64_t i = 0; i < 3; ++i) {
    Batch batch;
    parts.data->make(i, batch);
    const Score found = parts.trainer->evaluate(batch);
    EXPECT_EQ(found.loss, parts.trainer->step(batch, 0.05));
    EXPECT_EQ(found.rows, 4);
    EXPECT_GE(found.correct, 0);
    EXPECT_LE(found.correct, found.correct5);
    EXPECT_LE(found.correct5, 4);
  }
}

TEST_F(Run, EvaluationChangesNothing) {
  Parts with = make("resnet18"), without = make("resnet18");
  for (std::int64_t i = 0; i < 3; ++i) {
    Batch batch;
    with.data->make(100 + i, batch);
    with.trainer->evaluate(batch);
    EXPECT_EQ(step(with, i), step(without, i));
  }
  EXPECT_EQ(with.trainer->parameters_sha256(), without.trainer->parameters_sha256());
  EXPECT_EQ(with.trainer->states_sha256(), without.trainer->states_sha256());
}

// A norm that uses running statistics treats every sample alone: batches of 4 and of 2 give the same.
TEST_F(Run, EvaluationDoesNotMixSamples) {
  Parts parts = make("resnet18");
  for (std::int64_t i = 0; i < 3; ++i) step(parts, i);
  Batch batch;
  parts.data->make(50, batch);
  const Score whole = parts.trainer->evaluate(batch);
  Score halves;
  halves.add(parts.trainer->evaluate(part_of(batch, 0, 2)));
  halves.add(parts.trainer->evaluate(part_of(batch, 2, 4)));
  EXPECT_EQ(halves.samples, 4);
  EXPECT_EQ(halves.correct, whole.correct);
  EXPECT_EQ(halves.correct5, whole.correct5);
  EXPECT_NEAR(halves.loss, whole.loss, 1e-5 * std::abs(whole.loss));
}

TEST_F(Run, EvaluationDropsNothing) {
  const auto evaluation = [](const Graph& forward) { return make_step_graph(forward, StepKind::evaluate, {.accuracy = true}); };
  const StepGraph images = evaluation(build_model("vgg11", {.batch = 1, .width = 0.01}));
  EXPECT_FALSE(images.random_key.valid());
  EXPECT_FALSE(images.graph.find_value("random_key").valid());
  for (const Op& op : images.graph.ops()) EXPECT_NE(op.def->kind(), "dropout");
  const StepGraph tokens = evaluation(build_model("gpt2", {.batch = 1, .sequence = 4, .classes = 9, .width = 0.1}));
  EXPECT_FALSE(tokens.graph.find_value("random_key").valid());
  EXPECT_TRUE(tokens.correct5.valid());
}

std::vector<float> parameters_of(const Trainer& trainer, const char* name) {
  const std::string path = (fs::path(testing::TempDir()) / name).string();
  trainer.save(path);
  const SafetensorsFile file(path);
  std::vector<float> all;
  for (const TensorEntry& entry : file.entries()) {
    if (!entry.name.ends_with("weight") && !entry.name.ends_with("bias")) continue;
    const auto bytes = file.read(entry).data;
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

// What steps add to the parameters: errors of a gradient are small beside the parameters themselves.
std::vector<double> update(const std::vector<float>& after, const std::vector<float>& before) {
  std::vector<double> difference(after.begin(), after.end());
  for (std::size_t i = 0; i < after.size(); ++i) difference[i] -= before.at(i);
  return difference;
}

// Without norms, the gradient of a batch is the mean of its parts', each counted by its samples: any division gives the same step.
TEST_F(Run, PartsOfAStepAddUp) {
  const TrainingOptions options{.weight_decay = 0.01, .clip_norm = 0.5, .accuracy = true};
  Parts whole = make("mlp", StepKind::whole, options), divided = make("mlp", StepKind::last, options);
  const std::vector<float> before = parameters_of(*whole.trainer, "before");
  for (std::int64_t i = 0; i < 4; ++i) {
    Batch batch;
    whole.data->make(i, batch);
    const double loss = whole.trainer->step(batch, 0.1);
    // 1 + 2 + 1 samples; 3 + 1; all at once; 2 + 1 + 1
    const std::vector<std::vector<std::int64_t>> cuts{{0, 1, 3, 4}, {0, 3, 4}, {0, 4}, {0, 2, 3, 4}};
    const std::vector<std::int64_t>& at = cuts[static_cast<std::size_t>(i)];
    for (std::size_t k = 0; k + 2 < at.size(); ++k) divided.trainer->accumulate(part_of(batch, at[k], at[k + 1]), 4);
    const double sum = divided.trainer->step(part_of(batch, at[at.size() - 2], 4), 0.1, 4);
    EXPECT_NEAR(sum, loss, 1e-6 * std::abs(loss)) << "step " << i;
    EXPECT_EQ(divided.trainer->score().samples, 4);
    EXPECT_EQ(divided.trainer->score().correct, whole.trainer->score().correct);
  }
  EXPECT_EQ(divided.trainer->steps(), 4);
  const std::vector<float> after = parameters_of(*whole.trainer, "whole"), parts = parameters_of(*divided.trainer, "divided");
  EXPECT_TRUE(is_close(update(parts, before), update(after, before), 1e-4));
  EXPECT_EQ(divided.trainer->measured_peak_bytes(), divided.trainer->predicted_peak_bytes());
}

// Programs of any number of sizes share the parameters; the memory grows with them, and the measured peak is the predicted one.
TEST_F(Run, SamplesOfManySizes) {
  Parts parts = make("resnet18"), alone = make("resnet18");
  const std::int64_t before = (step(parts, 0), parts.trainer->measured_peak_bytes());
  step(alone, 0);
  EXPECT_EQ(parts.trainer->parameters_sha256(), alone.trainer->parameters_sha256());
  double first = 0, last = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::int64_t rows = 34 + 2 * (i % 20), columns = 40 + 8 * (i % 5);
    BatchSpec spec = batch_spec_of(parts.trainer->main());
    spec.x_shape = {1, 3, rows, columns};
    spec.y_shape = {1};
    Batch batch;
    synthetic_batches(spec, 3)->make(i, batch);
    last = parts.trainer->step(batch, 0.01);
    if (i == 0) first = last;
    EXPECT_TRUE(std::isfinite(last));
  }
  EXPECT_NE(first, last);
  EXPECT_EQ(parts.trainer->steps(), 41);
  EXPECT_GT(parts.trainer->predicted_peak_bytes(), 0);
  EXPECT_GE(parts.trainer->measured_peak_bytes(), before);
  EXPECT_EQ(parts.trainer->measured_peak_bytes(), parts.trainer->predicted_peak_bytes());
  // A batch larger than any before: the arena grows, and what it held stays.
  const std::string parameters = parts.trainer->parameters_sha256();
  BatchSpec spec = batch_spec_of(parts.trainer->main());
  spec.x_shape = {16, 3, 64, 64};
  spec.y_shape = {16};
  Batch batch;
  synthetic_batches(spec, 3)->make(0, batch);
  parts.trainer->evaluate(batch);
  EXPECT_EQ(parts.trainer->parameters_sha256(), parameters);
  parts.trainer->step(batch, 0.01);
  EXPECT_NE(parts.trainer->parameters_sha256(), parameters);
  EXPECT_EQ(parts.trainer->measured_peak_bytes(), parts.trainer->predicted_peak_bytes());
}

TEST_F(Run, WeightsThatDoNotFitAreAllNamedAndChangeNothing) {
  Parts small = make("mlp"), other = make("resnet18");
  const std::string path = (fs::path(testing::TempDir()) / "other.safetensors").string();
  other.trainer->save(path);
  const std::string before = small.trainer->parameters_sha256();
  try {
    small.trainer->load(SafetensorsFile(path));
    FAIL() << "they were taken";
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        path +
            ": does not fit the model: it lacks 0.bias, 0.weight, 2.bias, 2.weight, 4.bias and 1 more; --partial takes what fits");
  }
  EXPECT_THROW(small.trainer->load(SafetensorsFile(path), true), UserError);  // not even one is there
  EXPECT_EQ(small.trainer->parameters_sha256(), before);
}

RunState state_of(const Trainer& trainer) {
  RunState state;
  state.model = "resnet18";
  state.settings = {{"--lr", "0.05"}};
  state.backend = "cpu";
  state.seed = 5;
  state.step = trainer.steps();
  return state;
}

TEST_F(Run, CheckpointContinuesBitwise) {
  const std::string place = directory("continued");
  Parts whole = make("resnet18"), first = make("resnet18"), second = make("resnet18");
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
  Parts parts = make("mlp");
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

TEST_F(Run, DescriptionOfACheckpointIsReadWithCare) {
  const std::string place = directory("description");
  fs::create_directories(place);
  const std::string good =
      R"({"format": 4, "model": "m", "settings": {"--lr": "x"}, "backend": "cpu", "seed": 18446744073709551615, "step": 7, "begun": 0, "threads": 1,
      "best_loss": null, "best_step": 0, "stale": 0, "weights": "w", "weights_bytes": 3, "weights_crc32": 891568578, "kernels": ["a"], "request": {}, "plans": {"whole [1]": "p"}})";
  std::ofstream(fs::path(place) / "w") << "abc";
  const auto refusal_of = [&](const std::string& part, const std::string& by) -> std::string {
    std::string text = good;
    text.replace(text.find(part), part.size(), by);
    std::ofstream(fs::path(place) / "checkpoint-000000007.json") << text;
    try {
      find_checkpoint(place);
    } catch (const UserError& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_EQ(refusal_of("7", "7"), "(accepted)");
  const std::pair<std::pair<std::string, std::string>, std::string> wrong[]{
      {{"4,", "4"}, "not JSON: it goes wrong at byte 19 of the file, the end of '{\"format\": 4 \"model\"'"},
      {{"null", "\"\""}, "expected a number 'best_loss'"},
      {{"\"x\"", "1"}, "expected a string '--lr' in 'settings'"},
      {{"\"m\"", "3"}, "expected a string 'model'"},
      {{"\"model\"", "\"other\""}, "expected a string 'model'"},
      {{"\"model\"", "\"format\""}, "'format' stands twice"},
      {{"7,", "-7,"}, "expected a whole number 'step'"},
      {{"7,", "9223372036854775808,"}, "'step' is 9223372036854775808, which is too large"},
      {{"[\"a\"]", "[1]"}, "expected a list of strings 'kernels'"},
      {{"\"w\"", "\"../w\""}, "'weights' is '../w', expected a file's name"},
      {{"4,", "1,"}, "has format 1, expected 4"},
      {{"\"p\"", "1"}, "expected a string 'whole [1]' in 'plans'"},
      {{"891568578", "891568579"}, "is damaged"},
  };
  for (const auto& [change, message] : wrong) {
    const std::string found = refusal_of(change.first, change.second);
    EXPECT_NE(found.find(message), std::string::npos) << found;
    EXPECT_NE(found.find("checkpoint-000000007.json"), std::string::npos) << found;
  }
}

TEST_F(Run, CheckpointOfAnotherRunIsRefused) {
  const RunState then{.model = "resnet18", .settings = {{"--lr", "0.1"}, {"--warm-up", "0"}}, .backend = "cpu", .seed = 1};
  RunState now = then;
  expect_same_run(then, now, "d");
  now.model = "resnet50";
  try {
    expect_same_run(then, now, "d");
    FAIL() << "it was taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "d: the checkpoint's model is resnet18, but this run's is resnet50");
  }
  now = then;
  now.settings[1].second = "5";
  try {
    expect_same_run(then, now, "d");
    FAIL() << "it was taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "d: the checkpoint's --warm-up is 0, but this run's is 5");
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
