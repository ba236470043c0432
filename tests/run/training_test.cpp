// The training step as a graph: what the loop feeds, what it knows of the data, which options it refuses.
#include <gtest/gtest.h>

#include "../batches.h"
#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "run/trainer.h"

namespace outsize {
namespace {

StepGraph training_of(const std::string& text, const TrainingOptions& options = {}) {
  register_ops();
  return make_training_graph(parse_graph(text, "test"), options);
}

const std::string kTokens = R"(graph tokens
input x i32[2, 6]
input labels i32[2, 6]
param words f32[50, 4] init=normal:0.3
param head f32[40, 4] init=normal:0.3
)";

TEST(BatchSpec, TokensAndTheirLabels) {
  const BatchSpec spec = batch_spec_of(training_of(kTokens + R"(embed: e = embedding(x, words)
head: logits = linear(e, head)
count: count = label_count(labels) ignore_index=-7
loss: loss = softmax_cross_entropy(logits, labels, count) ignore_index=-7
output loss
)"));
  EXPECT_EQ(spec.x_dtype, DType::i32);
  EXPECT_EQ(spec.x_classes, 50);
  EXPECT_EQ(spec.classes, 40);
  EXPECT_EQ(spec.ignored_label, -7);
}

TEST(BatchSpec, PositionsOfMaps) {
  const BatchSpec spec = batch_spec_of(training_of(R"(graph positions
input x f32[2, 3, 6, 5]
input labels i32[2, 6, 5]
param weight f32[7, 3, 1, 1] init=normal:0.3
conv: logits = conv2d(x, weight)
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)"));
  EXPECT_EQ(spec.classes, 7);
  EXPECT_EQ(spec.x_classes, 0);
  EXPECT_FALSE(spec.ignored_label.has_value());
}

// Cut in two and joined again forty times, the labels reach the loss on 2^40 ways.
TEST(BatchSpec, LabelsThatAreCutAndJoinedAreFollowedOnce) {
  std::string text = R"(graph joined
input x f32[2, 3]
input labels i32[2]
param weight f32[4, 3] init=normal:0.3
fc: logits = linear(x, weight)
)";
  std::string last = "labels";
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("a{0}: a{0} = slice({1}) start=[0] end=[1]\nb{0}: b{0} = slice({1}) start=[1] end=[2]\n", i, last);
    text += fmt::format("c{0}: c{0} = concat(a{0}, b{0}) axis=0\n", i);
    last = fmt::format("c{}", i);
  }
  EXPECT_EQ(batch_spec_of(training_of(text + "loss: loss = softmax_cross_entropy(logits, " + last + ")\noutput loss\n")).classes,
            4);
}

TEST(StepGraph, StatesOfTheOptimizers) {
  const std::string text = kTokens + R"(embed: e = embedding(x, words)
head: logits = linear(e, head)
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)";
  const StepGraph adam = training_of(text, {.optimizer = Optimizer::adamw, .clip_norm = 2});
  EXPECT_TRUE(adam.step.valid());
  for (const char* name : {"words.adam_m", "words.adam_v", "head.adam_m", "head.adam_v"})
    EXPECT_TRUE(adam.graph.find_value(name).valid()) << name;
  EXPECT_FALSE(adam.graph.find_value("words.momentum").valid());
  EXPECT_EQ(adam.graph.op(adam.graph.find_op("clip_factor")).inputs.size(), 2U);  // of all parameters

  const StepGraph sgd = training_of(text, {.nesterov = true});
  EXPECT_FALSE(sgd.step.valid());
  EXPECT_TRUE(sgd.graph.find_value("words.momentum").valid());
  EXPECT_FALSE(sgd.graph.find_op("clip_factor").valid());

  EXPECT_THROW(training_of(text, {.momentum = 0, .nesterov = true}), UserError);
  EXPECT_THROW(training_of(text, {.optimizer = Optimizer::adam, .nesterov = true}), UserError);
  EXPECT_THROW(training_of(text, {.optimizer = Optimizer::adam, .beta1 = 1}), UserError);
  EXPECT_THROW(training_of(text, {.clip_norm = -1}), UserError);
}

// With a learning rate of 0 only the random key differs from step to step.
// An image is stored without the padding of blocks where convolutions alone read it and nothing asks for its gradient.
TEST(StepGraph, ImagesArePlanar) {
  const auto format = [](const std::string& channels, const std::string& more, const TrainingOptions& options) {
    const StepGraph step =
        training_of("graph image\ninput x f32[2, " + channels + ", 6, 5]\ninput labels i32[2]\nparam weight f32[4, " + channels +
                        ", 3, 3] init=normal:0.3\nconv: y = conv2d(x, weight)\n" + more +
                        "pool: p = adaptive_avg_pool(y)\nflat: z = reshape(p) shape=[2, 4]\n"
                        "loss: loss = softmax_cross_entropy(z, labels)\noutput loss\n",
                    options);
    return step.graph.value(step.x).type.format;
  };
  EXPECT_EQ(format("3", "", {}), Format::planar);
  EXPECT_EQ(format("3", "", {.gradients = true}), Format::map);
  EXPECT_EQ(format("3", "also: other = relu(x)\n", {}), Format::map);
  EXPECT_EQ(format("4", "", {}), Format::map);
}

TEST(Trainer, RandomKeyChangesWithEveryStepAndIsRepeated) {
  const StepGraph training = training_of(R"(graph dropped
input x f32[4, 32]
input random_key i32[4]
input target f32[4, 3]
param weight f32[3, 32] init=normal:1
drop: d = dropout(x, random_key) p=0.5
head: y = linear(d, weight)
loss: loss = mean_squared_error(y, target)
output loss
)");
  EXPECT_TRUE(training.random_key.valid());
  const auto source = synthetic_batches(batch_spec_of(training), 1);
  Batch batch;
  source->make(0, batch);
  const auto losses = [&](std::uint64_t seed) {
    const std::unique_ptr<Backend> backend = make_backend("reference", 1);
    Profile profile;
    profile.device = find_device("cpu");
    Prepared prepared =
        prepare(training.graph, *backend, profile, {.planner = "keep", .plan_text = {}, .plan_file = {}, .budgets = {}}).take();
    Trainer trainer({training, std::move(prepared)}, *backend, seed);
    std::vector<double> values;
    for (int i = 0; i < 3; ++i) values.push_back(trainer.step(batch, 0));
    return values;
  };
  const std::vector<double> once = losses(5);
  EXPECT_NE(once[0], once[1]);
  EXPECT_NE(once[1], once[2]);
  EXPECT_EQ(once, losses(5));
  EXPECT_NE(once, losses(6));
}

}  // namespace
}  // namespace outsize
