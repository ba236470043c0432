// The skeleton: hand-written plans that swap, recompute, tile, share and stream one small network must train as `keep` does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "backend/interface.h"
#include "cost/devices.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/planner.h"
#include "program/lower.h"
#include "run/executor.h"
#include "run/simulator.h"
#include "run/trainer.h"

namespace outsize {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(OUTSIZE_TEST_DATA) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

std::string in_f64(std::string text) {
  for (std::size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32", at)) text.replace(at, 3, "f64");
  return text;
}

// Elements of a value as doubles.
std::vector<double> as_doubles(DType dtype, const std::vector<std::byte>& bytes) {
  std::vector<double> numbers;
  if (dtype == DType::f64) {
    numbers.resize(bytes.size() / 8);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      float number = 0;
      std::memcpy(&number, bytes.data() + i, 4);
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::vector<std::byte> as_bytes(DType dtype, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float f = static_cast<float>(numbers[i]);
    const std::int32_t n = static_cast<std::int32_t>(numbers[i]);
    if (dtype == DType::f64) std::memcpy(bytes.data() + 8 * i, &numbers[i], 8);
    if (dtype == DType::f32) std::memcpy(bytes.data() + 4 * i, &f, 4);
    if (dtype == DType::i32) std::memcpy(bytes.data() + 4 * i, &n, 4);
  }
  return bytes;
}

using Results = std::vector<std::pair<std::string, std::vector<std::byte>>>;

struct Outcome {
  Results results;
  Program program;
};

// Three steps of the plan from the same weights and data: the last step's loss and gradients, then parameters and states.
Outcome train(const StepGraph& training, const Plan& plan, Backend& backend, bool loops, std::int64_t canary_bytes) {
  const Graph& graph = training.graph;
  LowerOptions options;
  options.storage = backend.storage();
  options.workspace = [&](const Call& call) { return backend.kernel(call)->workspace_bytes(); };
  options.loops = loops;
  options.canary_bytes = canary_bytes;
  Outcome run;
  run.program = lower(graph, plan, options);
  ExecutorOptions execution;
  execution.canary_bytes = canary_bytes;
  execution.debug_memory = canary_bytes > 0;
  execution.trace = true;
  execution.check_spill = true;
  Executor executor(graph, run.program, backend, execution);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const Binding& binding : run.program.persistent) {
    const Value& value = graph.value(binding.value);
    std::vector<double> numbers(static_cast<std::size_t>(value.type.elements()));
    for (double& number : numbers)
      number = value.init.kind == Init::Kind::ones    ? 1
               : value.init.kind == Init::Kind::zeros ? 0
                                                      : value.init.scale * normal(random);
    executor.write(binding.value, as_bytes(value.type.dtype, numbers));
  }
  for (int step = 0; step < 3; ++step) {
    for (const ValueId input : {training.x, training.y, training.loss_gradient, training.learning_rate}) {
      const ValueType& type = graph.value(input).type;
      std::vector<double> numbers(static_cast<std::size_t>(type.elements()));
      for (double& number : numbers)
        number = input == training.x               ? normal(random)
                 : input == training.y             ? static_cast<double>(random() % 4)
                 : input == training.loss_gradient ? 1
                                                   : 0.05;
      executor.write(input, as_bytes(type.dtype, numbers));
    }
    executor.step();
  }
  const auto take = [&](ValueId value) {
    const ValueType& type = graph.value(value).type;
    std::vector<std::byte> bytes(static_cast<std::size_t>(type.elements() * size_of(type.dtype)));
    executor.read(value, bytes);
    run.results.emplace_back(graph.value(value).name, std::move(bytes));
  };
  for (const ValueId value : graph.outputs()) take(value);
  for (const Binding& binding : run.program.persistent) take(binding.value);
  for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
    EXPECT_EQ(executor.measured_peak_bytes(tier), run.program.peak_bytes[static_cast<int>(tier)]) << name_of(tier);
  // The simulator runs the same instructions on the same lanes.
  const Trace predicted = simulate(graph, run.program, Profile{find_device("cpu"), {}});
  std::vector<std::int64_t> simulated(kLanes), executed(kLanes);
  for (const TraceEvent& event : predicted.events) ++simulated[static_cast<std::size_t>(event.lane)];
  for (const TraceEvent& event : executor.trace().events) ++executed[static_cast<std::size_t>(event.lane)];
  EXPECT_EQ(simulated, executed);
  return run;
}

struct Case {
  std::string graph;
  std::string plan;
  bool bitwise = false;
  std::string backend;
  DType dtype = DType::f32;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.graph << " " << c.plan << " " << c.backend << " " << name_of(c.dtype);
  }
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* graph : {"skeleton", "strided"})
    for (const char* plan : {"b-swap-host", "b-swap-disk", "b-update-host", "b-update-disk", "c-recompute", "d-rows-overlap",
                             "e1-rows-share-down", "e2-rows-share-up", "f-tiles-2d", "g-streamed-input", "h-all-at-once"}) {
      const bool bitwise = plan[0] == 'b' || plan[0] == 'c';
      cases.push_back({graph, plan, bitwise, "reference", DType::f64});
      cases.push_back({graph, plan, bitwise, "reference", DType::f32});
      cases.push_back({graph, plan, bitwise, "cpu", DType::f32});
    }
  for (const auto& [backend, dtype] :
       {std::pair("reference", DType::f64), std::pair("reference", DType::f32), std::pair("cpu", DType::f32)})
    cases.push_back({"clipped", "i-rows-clipped", false, backend, dtype});
  return cases;
}

class Skeleton : public testing::TestWithParam<Case> {
 protected:
  static StepGraph make(const Case& c) {
    register_ops();
    std::string text = read_file(c.graph + ".graph");
    if (c.dtype == DType::f64) text = in_f64(text);
    TrainingOptions options;
    options.gradients = true;
    return make_training_graph(parse_graph(text, c.graph), options);
  }
  static Plan keep(const StepGraph& training, Backend& backend) {
    const Profile profile{find_device("cpu"), {}};
    return find_planner("keep").make({training.graph, profile, backend.storage()});
  }
};

TEST_P(Skeleton, TrainsAsKeepDoes) {
  const Case c = GetParam();
  const StepGraph training = make(c);
  const std::unique_ptr<Backend> backend = make_backend(c.backend, 2);
  const Outcome kept = train(training, keep(training, *backend), *backend, true, 0);
  const Plan plan = parse_plan(training.graph, read_file(c.plan + ".plan"), c.plan);

  // The text form says all there is to say.
  const std::string text = print_plan(training.graph, plan);
  EXPECT_EQ(print_plan(training.graph, parse_plan(training.graph, text, "printed")), text);

  for (const bool loops : {true, false}) {
    const Outcome planned = train(training, plan, *backend, loops, 256);
    ASSERT_EQ(planned.results.size(), kept.results.size());
    EXPECT_TRUE(loops || planned.program.loops.empty());
    for (std::size_t i = 0; i < kept.results.size(); ++i) {
      const auto& [name, expected] = kept.results[i];
      const auto& [same_name, found] = planned.results[i];
      ASSERT_EQ(name, same_name);
      if (c.bitwise) {
        EXPECT_TRUE(expected == found) << name << " differs in its bits";
        continue;
      }
      const std::vector<double> a = as_doubles(c.dtype, found), b = as_doubles(c.dtype, expected);
      double difference = 0, norm = 0;
      for (std::size_t k = 0; k < a.size(); ++k) {
        difference += (a[k] - b[k]) * (a[k] - b[k]);
        norm += b[k] * b[k];
      }
      EXPECT_LE(std::sqrt(difference), (c.dtype == DType::f64 ? 1e-9 : 1e-4) * std::sqrt(norm)) << name << " loops " << loops;
    }
  }
}

// What a pass cannot be driven by is refused, never computed wrongly.
TEST(SkeletonRefuses, ReductionsAndChannelsAsDrivers) {
  register_ops();
  const StepGraph training = make_training_graph(parse_graph(read_file("skeleton.graph"), "skeleton"), {});
  const std::unique_ptr<Backend> backend = make_backend("reference", 1);
  LowerOptions options;
  options.storage = backend->storage();
  const auto refusal = [&](const std::string& plan) -> std::string {
    try {
      lower(training.graph, parse_plan(training.graph, plan, "bad.plan"), options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal("run shortcut\npass r.a driver=stats grid=[2, 1] ops=[conv1, bn.stats]\nrest\n").find("result of a reduction"),
            std::string::npos);
  EXPECT_NE(
      refusal("until fc.grad_weight\npass r.a driver=fc.grad_weight grid=[2, 1] ops=[fc.grad_weight]\nrest\n").find("reduction"),
      std::string::npos);
  EXPECT_NE(refusal("until conv1\npass r.a driver=y grid=[1, 8, 1, 1] ops=[conv1]\nrest\n").find("channels of y"),
            std::string::npos);
  EXPECT_NE(
      refusal("until conv1\npass r.a driver=y grid=[1, 1, 2, 1] ops=[conv1, bn.stats, bn.finalize]\nrest\n").find("complete only"),
      std::string::npos);
}

TEST(SkeletonRefuses, HostRunsThatCannotBe) {
  register_ops();
  const StepGraph training = make_training_graph(parse_graph(read_file("skeleton.graph"), "skeleton"), {});
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      check_plan(training.graph, parse_plan(training.graph, text, "bad.plan"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("run shortcut host\n"), "plan, step 1: op shortcut is no update: only updates run on the host");
  EXPECT_EQ(refusal("until fc.weight.sgd\nrun fc.weight.sgd disk\n").substr(0, 10), "plan, step");
  EXPECT_NE(refusal("until fc.weight.sgd\nrun fc.weight.sgd disk\n").find("cannot run on disk; expected host"), std::string::npos);
  EXPECT_NE(refusal("until fc.weight.sgd\nrun fc.weight.sgd host\n").find("reads fc.weight, which is not there; `out` it before"),
            std::string::npos);
  EXPECT_EQ(refusal("stream fc.weight host\nin fc.weight\nout fc.weight host\n"),
            "plan, step 2: out fc.weight: it lives on host and is there already");
  EXPECT_NE(refusal("until fc.weight.sgd\nout fc.weight host\nout fc.grad_weight host\nout learning_rate host\n"
                    "out fc.weight.momentum host\nrun fc.weight.sgd host\n")
                .find("updates fc.weight, which lives on the device; `stream` it"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Plans, Skeleton, testing::ValuesIn(all_cases()), [](const auto& tested) {
  std::string name =
      tested.param.graph + "_" + tested.param.plan + "_" + tested.param.backend + "_" + std::string(name_of(tested.param.dtype));
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

}  // namespace
}  // namespace outsize
