#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/interface.h"
#include "close.h"
#include "cost/devices.h"
#include "graph/step_graph.h"
#include "program/lower.h"
#include "program/simulator.h"
#include "run/executor.h"

namespace outsize {

// Elements of a value as doubles.
inline std::vector<double> as_doubles(DType dtype, const std::vector<std::byte>& bytes) {
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

inline std::vector<std::byte> as_bytes(DType dtype, const std::vector<double>& numbers) {
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

// The nearest number that f32 has.
inline double as_float(double number) { return static_cast<double>(static_cast<float>(number)); }

// Gives windows of a value that is there whole.
inline WindowReader window_reader(const ValueType& type, std::vector<std::byte> whole) {
  return [type, whole = std::move(whole)](const Box& window, std::byte* out) {
    const std::int64_t size = size_of(type.dtype);
    for_each_row(type.shape, window, [&](std::int64_t offset, std::int64_t count) {
      std::memcpy(out, whole.data() + offset * size, static_cast<std::size_t>(count * size));
      out += count * size;
    });
  };
}

using Results = std::vector<std::pair<std::string, std::vector<std::byte>>>;

struct Outcome {
  Results results;
  Program program;
};

// Steps of the plan from the same weights and data, which f32 holds, so that it and f64 begin alike: the last step's loss and
// gradients, then parameters and states.
inline Outcome train(const StepGraph& training, const Plan& plan, Backend& backend, bool loops, std::int64_t canary_bytes,
                     int steps = 3, bool takeovers = true) {
  const Graph& graph = training.graph;
  LowerOptions options;
  options.storage = backend.storage();
  options.workspace = [&](const Call& call) { return backend.kernel(call)->workspace_bytes(); };
  options.chosen_workspace = [&](const Call& call, std::string_view name) { return backend.workspace_bytes(call, name); };
  options.loops = loops;
  options.takeovers = takeovers;
  options.canary_bytes = canary_bytes;
  Outcome run;
  run.program = lower(graph, plan, options).take();
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
                                                      : as_float(value.init.scale * normal(random));
    executor.write(binding.value, as_bytes(value.type.dtype, numbers));
  }
  for (int step = 0; step < steps; ++step) {
    for (const ValueId input : {training.x, training.y, training.loss_gradient, training.learning_rate}) {
      const ValueType& type = graph.value(input).type;
      std::vector<double> numbers(static_cast<std::size_t>(type.elements()));
      for (double& number : numbers)
        number = input == training.x   ? (is_float(type.dtype) ? as_float(normal(random)) : static_cast<double>(random() % 4))
                 : input == training.y ? static_cast<double>(random() % 4)
                 : input == training.loss_gradient ? 1
                                                   : as_float(0.05);
      const std::vector<std::byte> bytes = as_bytes(type.dtype, numbers);
      if (executor.takes_windows(input))
        executor.source(input, window_reader(type, bytes));
      else
        executor.write(input, bytes);
    }
    if (training.step) executor.write(training.step, as_bytes(DType::i32, {static_cast<double>(step + 1)}));
    if (training.random_key) executor.write(training.random_key, as_bytes(DType::i32, {1, 2, 3, static_cast<double>(step)}));
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
    EXPECT_EQ(executor.measured_peak_bytes(tier), run.program.peak_bytes[tier]) << name_of(tier);
  // The simulator runs the same instructions on the same lanes.
  const Trace predicted = simulate(graph, run.program, Profile{find_device("cpu"), {}});
  std::vector<std::int64_t> simulated(kLanes), executed(kLanes);
  for (const TraceEvent& event : predicted.events) ++simulated[static_cast<std::size_t>(event.lane)];
  for (const TraceEvent& event : executor.trace().events) ++executed[static_cast<std::size_t>(event.lane)];
  EXPECT_EQ(simulated, executed);
  return run;
}

// What is 0 but for rounding (the gradient of a bias before a norm) counts as if each of its elements were a millionth.
inline double least_norm(std::size_t elements) { return 1e-6 * std::sqrt(static_cast<double>(elements)); }

inline double root_mean_square(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number * number;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

// relative_l2_error() of the elements of a value of floats, and whether it is at most the tolerance.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  return relative_l2_error(found, expected, least_norm(expected.size()));
}

inline testing::AssertionResult is_close(DType dtype, const std::vector<std::byte>& found, const std::vector<std::byte>& expected,
                                         double tolerance) {
  if (!is_float(dtype)) return testing::AssertionFailure() << "compared as floats, which they are not";
  const std::vector<double> numbers = as_doubles(dtype, expected);
  return is_close(as_doubles(dtype, found), numbers, tolerance, least_norm(numbers.size()));
}

// Everything that two trainings of a graph come to, value by value.
inline void expect_close(const Graph& graph, const Outcome& found, const Outcome& expected, double tolerance) {
  ASSERT_EQ(found.results.size(), expected.results.size());
  ASSERT_FALSE(expected.results.empty());
  for (std::size_t i = 0; i < expected.results.size(); ++i) {
    const auto& [name, bytes] = expected.results[i];
    ASSERT_EQ(found.results[i].first, name);
    EXPECT_TRUE(is_close(graph.value(graph.find_value(name)).type.dtype, found.results[i].second, bytes, tolerance)) << name;
  }
}

}  // namespace outsize
