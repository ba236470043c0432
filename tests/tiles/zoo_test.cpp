// Every model of the zoo in f32, tile by tile, all that can be cut of it: loss, gradients, parameters and running statistics after
// a step are those of whole values.
//
//   OUTSIZE_FULL=1 test_tiles --gtest_filter='*Zoo*'      resnet1001 too, which takes 2 GB
#include "model/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "../step_runs.h"
#include "cut_everything.h"
#include "ops/registry.h"
#include "plan/planner.h"

namespace outsize {
namespace {

constexpr double kTolerance = 1e-4;

// As small as leaves every norm some elements.
ModelOptions small(const ModelEntry& model, DType dtype) {
  ModelOptions options{.batch = 4, .classes = 5, .width = 0.125, .dtype = dtype};
  if (model.domain == Domain::tokens)
    options.sequence = 12, options.width = 0.09;
  else if (model.domain == Domain::volume)
    options.image_depth = options.image_height = options.image_width = 32;
  else if (model.name == "resnet1001")
    options.image_height = options.image_width = 32;
  else
    options.image_height = options.image_width = model.name.starts_with("inception") ? 299 : 64;
  return options;
}

// So deep that f32 itself is wrong by more than the tolerance: rounding grows from norm to norm, and where it changes the sign of
// what a relu or a maximum reads, a gradient comes or goes.
bool is_deep(std::string_view name) {
  static const std::set<std::string_view> kDeep{"resnet101",   "resnet152",   "resnet1001",   "densenet121", "densenet161",
                                                "densenet169", "densenet201", "inception_v3", "inception_v4"};
  return kDeep.contains(name);
}

std::vector<ModelEntry> models() {
  std::vector<ModelEntry> chosen = zoo();
  if (!std::getenv("OUTSIZE_FULL")) std::erase_if(chosen, [](const ModelEntry& model) { return model.name == "resnet1001"; });
  return chosen;
}

struct Network {
  StepGraph step;
  std::unique_ptr<Backend> backend;

  Network(const ModelEntry& model, DType dtype)
      : step(make_training_graph(build_model(model.name, small(model, dtype)), {.gradients = true})),
        backend(make_backend(dtype == DType::f64 ? "reference" : "cpu", 1)) {}

  Outcome whole() const {
    const Profile profile{find_device("cpu"), {}};
    return train(step, find_planner("keep").make({step.graph, profile, backend->storage()}).take(), *backend, true, 0, 1);
  }
  std::vector<double> numbers(const Outcome& outcome, std::size_t i) const {
    const auto& [value, bytes] = outcome.results[i];
    return as_doubles(step.graph.value(step.graph.find_value(value)).type.dtype, bytes);
  }
};

class Zoo : public testing::TestWithParam<ModelEntry> {};

TEST_P(Zoo, TilesTrainAsWholeValuesDo) {
  register_ops();
  const ModelEntry& model = GetParam();
  const Network network(model, DType::f32);
  const Outcome kept = network.whole();
  const auto place = std::ranges::find(zoo(), model.name, &ModelEntry::name) - zoo().begin();
  const Form form = place % 2 == 0 ? Form::shared : Form::pushed;  // neighbours in the list take turns
  const Outcome tiled =
      train(network.step, cut_everything(network.step.graph, form, cut_of(network.step.graph)), *network.backend, true, 0, 1);
  ASSERT_EQ(tiled.results.size(), kept.results.size());
  double worst = 0;
  std::vector<std::size_t> missed;
  for (std::size_t i = 0; i < kept.results.size(); ++i) {
    ASSERT_EQ(tiled.results[i].first, kept.results[i].first);
    const double error = relative_error(network.numbers(tiled, i), network.numbers(kept, i));
    if (error <= kTolerance)
      worst = std::max(worst, error);
    else
      missed.push_back(i);
  }
  fmt::print("{}: {:.1e}", model.name, worst);
  if (!missed.empty()) {
    // Tiles are not further from the truth than whole values, up to chance.
    const Network precise(model, DType::f64);
    const Outcome truth = precise.whole();
    std::vector<double> of_tiles, of_whole;
    for (const std::size_t i : missed) {
      ASSERT_EQ(truth.results[i].first, kept.results[i].first);
      const std::vector<double> exact = precise.numbers(truth, i);
      EXPECT_TRUE(is_deep(model.name) || root_mean_square(exact) < 1e-12) << kept.results[i].first;  // or 0 but for rounding
      of_tiles.push_back(relative_error(network.numbers(tiled, i), exact));
      of_whole.push_back(relative_error(network.numbers(kept, i), exact));
    }
    EXPECT_TRUE(std::isfinite(root_mean_square(of_whole)));
    EXPECT_LE(root_mean_square(of_tiles), 2 * root_mean_square(of_whole));
    fmt::print("; {} of {} values from f64: {:.1e}, keep {:.1e}", missed.size(), kept.results.size(), root_mean_square(of_tiles),
               root_mean_square(of_whole));
  }
  fmt::print("\n");
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo, testing::ValuesIn(models()), [](const auto& test) {
  std::string name(test.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace outsize
