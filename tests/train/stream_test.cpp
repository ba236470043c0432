// `stream` on random networks whose weights are most of what they take, some of them read more than once and some never updated:
// whatever the budget, with clipping and with steps of several batches, it trains as `keep` does, bit by bit.
#include <gtest/gtest.h>

#include <random>

#include "../trained.h"
#include "cost/devices.h"
#include "graph/text.h"
#include "model/zoo.h"
#include "ops/registry.h"

namespace outsize {
namespace {

constexpr std::int64_t kSteps = 3;

// Linear layers of one width in a row, with relus, sums and norms between them. A layer has a weight of its own, or that of one
// before it, or that one transposed; or a frozen one.
std::string random_network(std::mt19937_64& random) {
  const auto any = [&](std::int64_t count) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count)); };
  const std::int64_t width = 64 + 32 * any(3), layers = 4 + any(5);
  std::string weights, ops;
  std::vector<std::string> trained;
  std::string now = "x", before;
  for (std::int64_t k = 0; k < layers; ++k) {
    const std::int64_t kind = any(5);
    std::string weight = fmt::format("w{}", k);
    if (kind == 0 && !trained.empty()) {
      weight = trained[static_cast<std::size_t>(any(std::ssize(trained)))];
    } else if (kind == 1) {
      weights += fmt::format("state {} f32[{}, {}] init=normal:0.1\n", weight, width, width);
    } else {
      weights += fmt::format("param {} f32[{}, {}] init=normal:0.1\n", weight, width, width);
      trained.push_back(weight);
    }
    ops += fmt::format("fc{}: a{} = linear({}, {}) weight={}\n", k, k, now, weight, any(2) == 0 ? "io" : "oi");
    ops += fmt::format("relu{}: b{} = relu(a{})\n", k, k, k);
    const std::string made = fmt::format("b{}", k);
    if (!before.empty() && any(2) == 0) {
      ops += fmt::format("add{}: c{} = add({}, {})\n", k, k, made, before);
      now = fmt::format("c{}", k);
    } else {
      now = made;
    }
    before = now;
  }
  weights += fmt::format("param head f32[{}, {}] init=normal:0.1\n", 10, width);
  return fmt::format(
      "graph random\ninput x f32[6, {}]\ninput labels i32[6]\n{}{}fc: logits = linear({}, head)\n"
      "loss: loss = softmax_cross_entropy(logits, labels)\noutput loss\n",
      width, weights, ops, now);
}

class Network {
 public:
  Network(const std::string& text, const TrainingOptions& options, const Device& device)
      : forward_(parse_graph(text, "random.graph")), options_(options), profile_{device, {}} {}

  Planned<Prepared> prepare_by(const std::string& planner, StepKind kind, const Budgets& budgets,
                               const PersistentLayout* layout = nullptr) {
    const StepGraph step = make_step_graph(forward_, kind, options_);
    PrepareOptions options;
    options.planner = planner;
    options.budgets = budgets;
    options.layout = layout;
    return prepare(step.graph, *backend_, profile_, options);
  }

  Graph graph(StepKind kind) const { return make_step_graph(forward_, kind, options_).graph; }

  // In steps of `parts` batches.
  Trained train(const std::string& planner, const Budgets& budgets, Prepared prepared, std::int64_t parts) {
    const StepKind kind = parts > 1 ? StepKind::last : StepKind::whole;
    const auto maker = [&](StepKind other, const Dims&, const PersistentLayout& layout) {
      return StepProgram{make_step_graph(forward_, other, options_), prepare_by(planner, other, budgets, &layout).take()};
    };
    const std::int64_t peak = prepared.program.peak_bytes.device;
    Trainer trainer({make_step_graph(forward_, kind, options_), std::move(prepared)}, *backend_, 3, "", maker, true);
    const std::unique_ptr<Loader> data = synthetic_batches(batch_spec_of(trainer.main()), 5);
    Trained trained;
    Batch batch;
    for (std::int64_t i = 0; i < kSteps; ++i) {
      for (std::int64_t part = 0; part < parts; ++part) {
        data->make(i * parts + part, batch);
        if (part + 1 < parts)
          trainer.accumulate(batch, 6 * parts);
        else
          trained.losses.push_back(trainer.step(batch, 0.01, 6 * parts));
      }
    }
    trained.losses.push_back(trainer.evaluate(batch).loss);
    EXPECT_GE(trainer.measured_peak_bytes(), peak);
    EXPECT_EQ(trainer.measured_peak_bytes(), trainer.predicted_peak_bytes());
    trained.parameters = trainer.parameters_sha256();
    trained.states = trainer.states_sha256();
    return trained;
  }

 private:
  Graph forward_;
  TrainingOptions options_;
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 1);
  Profile profile_;
};

TEST(Stream, TrainsRandomNetworksAsKeepDoes) {
  register_ops();
  std::mt19937_64 random(27);
  const Device cpu = find_device("cpu");
  Device apart = cpu;  // a device beside the host, whose link is the slower of the two
  apart.link_out = apart.link_in = cpu.link_out / 10;
  apart.host_bandwidth = 1e11;
  std::map<std::string, int> trained, tight;
  int by_rows = 0;
  for (int network = 0; network < 8; ++network) {
    const std::string text = random_network(random);
    const Optimizer optimizer = network % 3 == 0 ? Optimizer::sgd : Optimizer::adamw;
    const TrainingOptions options{
        .optimizer = optimizer, .momentum = network % 2 == 0 ? 0.0 : 0.9, .clip_norm = network % 4 < 2 ? 0.0 : 0.5};
    const std::int64_t parts = network % 2 == 0 ? 1 : 3;
    const StepKind kind = parts > 1 ? StepKind::last : StepKind::whole;
    Network of(text, options, network < 4 ? cpu : apart);
    Prepared keep = of.prepare_by("keep", kind, {}).take();
    const std::int64_t whole = keep.program.peak_bytes.device;
    const Trained expected = of.train("keep", {}, std::move(keep), parts);
    for (const std::string planner : {"stream", "blend"})
      for (const bool disk : {false, true})
        for (const int percent : {70, 50, 35, 25, 18}) {
          Budgets budgets{.device = whole * percent / 100};
          // What goes from a device of its own to disk passes through host memory.
          if (disk) budgets.host = network < 4 ? 0 : whole / 4, budgets.disk = kNoLimit;
          const std::string what = fmt::format("{} of {}in {} %{}", planner, text, percent, disk ? ", disk" : "");
          Planned<Prepared> prepared = of.prepare_by(planner, kind, budgets);
          if (!prepared) {
            EXPECT_GT(prepared.refusal().missing(), 0) << what;
            EXPECT_LE(percent, 35) << what << ": " << BudgetError(prepared.refusal()).what();
            continue;
          }
          EXPECT_LE(prepared->program.peak_bytes.device, budgets.device) << what;
          // Updates that go row by row sum nothing.
          EXPECT_FALSE(rounds(of.graph(kind), prepared->plan)) << what;
          by_rows += !prepared->plan.passes.empty();
          EXPECT_EQ(of.train(planner, budgets, *std::move(prepared), parts), expected) << what;
          ++trained[planner];
          tight[planner] += percent <= 25;
        }
  }
  for (const std::string planner : {"stream", "blend"}) {
    EXPECT_GE(trained[planner], 48) << planner;
    EXPECT_GE(tight[planner], 8) << planner;
  }
  EXPECT_GE(by_rows, 4);
}

// With many words, logits and what is made of them are most of what a step takes: they are taken piece by piece, and all numbers
// are keep's but for the order of sums; told not to split, the planner refuses or gives the same bits.
TEST(Stream, LogitsPieceByPiece) {
  register_ops();
  const StepGraph step =
      make_training_graph(build_model("gpt2", {.batch = 4, .sequence = 128, .classes = 1000, .width = 0.09}), {});
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  const Profile profile{find_device("cpu"), {}};
  const auto prepare_by = [&](const std::string& planner, std::int64_t device) {
    PrepareOptions options;
    options.planner = planner;
    options.budgets.device = device;
    return prepare(step.graph, *backend, profile, options);
  };
  const auto train_by = [&](Prepared prepared) {
    Trainer trainer({step, std::move(prepared)}, *backend, 3);
    Trained trained = outsize::train(trainer, kSteps);
    EXPECT_EQ(trainer.measured_peak_bytes(), trainer.predicted_peak_bytes());
    return trained;
  };
  Prepared keep = prepare_by("keep", kNoLimit).take();
  const std::int64_t whole = keep.program.peak_bytes.device;
  const Trained expected = train_by(std::move(keep));
  int in_pieces = 0;
  for (const int percent : {40, 20, 10, 7, 5}) {
    Planned<Prepared> prepared = prepare_by("stream", whole * percent / 100);
    if (!prepared) continue;
    const std::vector<Pass>& passes = prepared->plan.passes;
    const bool pieces = std::ranges::any_of(passes, [](const Pass& pass) { return pass.name == "pieces.lm_head"; });
    in_pieces += pieces;
    EXPECT_EQ(rounds(step.graph, prepared->plan), pieces) << percent;
    const Rounding rounding;
    expect_same(train_by(*std::move(prepared)), expected, pieces ? &rounding : nullptr, fmt::format("stream in {} %", percent));
    Planned<Prepared> exact = prepare_by("stream:split=false", whole * percent / 100);
    if (!exact) continue;
    EXPECT_FALSE(std::ranges::any_of(exact->plan.passes, [](const Pass& pass) { return pass.name == "pieces.lm_head"; }));
    EXPECT_FALSE(rounds(step.graph, exact->plan)) << percent;
    EXPECT_TRUE(train_by(*std::move(exact)) == expected) << percent;
  }
  EXPECT_GE(in_pieces, 2);
}

// A weight that is larger than the memory is on the device in rows or columns only: its gradient and its update with it. The same
// op makes the gradient of a bias, which is updated by itself.
TEST(Stream, AWeightLargerThanTheMemory) {
  register_ops();
  Network of(R"(graph wide
input x f32[4, 512]
input labels i32[4]
param first f32[64, 512] init=normal:0.1
param wide f32[2048, 64] init=normal:0.1
param high f32[512, 2048] init=normal:0.1
param lift f32[512] init=normal:0.1
param last f32[10, 512] init=normal:0.1
one: a = linear(x, first)
two: b = linear(a, wide)
relu: c = relu(b)
three: d = linear(c, high, lift)
four: logits = linear(d, last)
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)",
             {.optimizer = Optimizer::adamw}, find_device("cpu"));
  Prepared keep = of.prepare_by("keep", StepKind::whole, {}).take();
  const Trained expected = of.train("keep", {}, std::move(keep), 1);
  for (const bool disk : {false, true}) {
    Budgets budgets{.device = 512 * 2048 * 4 / 2};  // half of `high`
    if (disk) budgets.host = 0, budgets.disk = kNoLimit;
    Prepared prepared = of.prepare_by("stream", StepKind::whole, budgets).take();
    EXPECT_LE(prepared.program.peak_bytes.device, budgets.device);
    EXPECT_TRUE(rounds(of.graph(StepKind::whole), prepared.plan));
    const Trained trained = of.train("stream", budgets, std::move(prepared), 1);
    for (std::size_t step = 0; step < expected.losses.size(); ++step)
      EXPECT_NEAR(trained.losses[step], expected.losses[step], 1e-5 * expected.losses[step]) << step;
    EXPECT_FALSE(of.prepare_by("stream:split=false", StepKind::whole, budgets));
  }
}

}  // namespace
}  // namespace outsize
