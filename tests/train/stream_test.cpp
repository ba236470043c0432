// `stream` on random networks whose weights are most of what they take, some of them read more than once and some never updated:
// whatever the budget, with clipping and with steps of several batches, it trains as `keep` does, bit by bit.
#include <gtest/gtest.h>

#include <random>

#include "../trained.h"
#include "cost/devices.h"
#include "graph/text.h"
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
  int trained = 0, tight = 0;
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
    for (const bool disk : {false, true})
      for (const int percent : {70, 50, 35, 25, 18}) {
        Budgets budgets{.device = whole * percent / 100};
        // What goes from a device of its own to disk passes through host memory.
        if (disk) budgets.host = network < 4 ? 0 : whole / 4, budgets.disk = kNoLimit;
        const std::string what = fmt::format("{}in {} %{}", text, percent, disk ? ", disk" : "");
        Planned<Prepared> prepared = of.prepare_by("stream", kind, budgets);
        if (!prepared) {
          EXPECT_GT(prepared.refusal().missing(), 0) << what;
          EXPECT_LE(percent, 35) << what << ": " << BudgetError(prepared.refusal()).what();
          continue;
        }
        EXPECT_LE(prepared->program.peak_bytes.device, budgets.device) << what;
        EXPECT_EQ(of.train("stream", budgets, *std::move(prepared), parts), expected) << what;
        ++trained;
        tight += percent <= 25;
      }
  }
  EXPECT_GE(trained, 48);
  EXPECT_GE(tight, 8);
}

}  // namespace
}  // namespace outsize
