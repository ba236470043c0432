// The planner of docs/adding-a-planner.md, built from the document.
#include "plan/planner.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../batches.h"
#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "run/batch_spec.h"
#include "run/trainer.h"
#include "search/prepare.h"

namespace outsize {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

StepGraph training_graph(const std::string& path) {
  register_ops();
  return make_training_graph(parse_graph(read_text(path), path), {.accuracy = true});  // as the command has it
}

const Profile& profile() {
  static const Profile cpu{find_device("cpu"), {}};
  return cpu;
}

Prepared prepare_by(const std::string& planner, const StepGraph& training, Backend& backend) {
  PrepareOptions options;
  options.planner = planner;
  return prepare(training.graph, backend, profile(), options).take();
}

TEST(SwapAll, MakesThePlanOfTheDocument) {
  const StepGraph training = training_graph(OUTSIZE_DOCUMENTED "/three_layers.graph");
  const Plan plan = find_planner("swap-all").make({.graph = training.graph, .profile = profile(), .storage = {}}).take();
  EXPECT_EQ(print_plan(training.graph, plan), read_text(OUTSIZE_DOCUMENTED "/three_layers.plan"));
}

// b and d are f32[4, 16], 256 bytes each, and go both ways.
TEST(SwapAll, SwapsWhatItSays) {
  const StepGraph training = training_graph(OUTSIZE_DOCUMENTED "/three_layers.graph");
  const std::unique_ptr<Backend> backend = make_backend("reference", 1);
  EXPECT_EQ(figures_of(training.graph, prepare_by("swap-all", training, *backend)).swapped_bytes, 4 * 256);
}

struct Trained {
  std::vector<double> losses;
  std::string parameters;
  std::string states;
  bool operator==(const Trained&) const = default;
};

Trained train(const std::string& planner, const std::string& path) {
  StepGraph training = training_graph(path);
  const std::unique_ptr<Backend> backend = make_backend("reference", 1);
  const std::unique_ptr<Loader> source = synthetic_batches(batch_spec_of(training), 5);
  Prepared prepared = prepare_by(planner, training, *backend);
  Trainer trainer({std::move(training), std::move(prepared)}, *backend, 3);
  Trained trained;
  Batch batch;
  for (std::int64_t step = 0; step < 3; ++step) {
    source->make(step, batch);
    trained.losses.push_back(trainer.step(batch, 0.05));
  }
  EXPECT_EQ(trainer.measured_peak_bytes(), trainer.prepared().program.peak_bytes.device);
  trained.parameters = trainer.parameters_sha256();
  trained.states = trainer.states_sha256();
  return trained;
}

// Bit by bit, on the document's network and on one with batch norm, a pool's argmax and a skip.
TEST(SwapAll, TrainsAsKeepDoes) {
  for (const char* path : {OUTSIZE_DOCUMENTED "/three_layers.graph", OUTSIZE_TESTS "/skeleton/skeleton.graph"})
    EXPECT_TRUE(train("swap-all", path) == train("keep", path)) << path;
}

}  // namespace
}  // namespace outsize
