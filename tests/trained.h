#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "batches.h"
#include "data/safetensors.h"
#include "graph/opdef.h"
#include "run/batch_spec.h"
#include "run/trainer.h"
#include "step_runs.h"

namespace outsize {

// What some steps of training come to.
struct Trained {
  // What the steps add to a parameter, to a state of the optimizer or to running statistics: beside that, and not beside the value
  // itself, an error of a gradient shows.
  struct Change {
    std::string name;
    Role role = Role::parameter;
    std::vector<double> numbers;

    // What changes are of: parameters, or states of one sort (".momentum", ".running_mean").
    std::string kind() const { return role == Role::parameter ? "" : name.substr(name.rfind('.')); }
    bool operator==(const Change&) const = default;
  };

  std::vector<double> losses;
  std::vector<Change> changes;
  std::string parameters;  // checksums
  std::string states;
  bool operator==(const Trained&) const = default;
};

// Steps of a new trainer on batches drawn from `seed`.
inline Trained train(Trainer& trainer, std::int64_t steps, std::uint64_t seed = 5) {
  const Graph& graph = trainer.main().graph;
  const auto numbers_of = [&](ValueId value) { return as_doubles(graph.value(value).type.dtype, trainer.read(value)); };
  const std::unique_ptr<Loader> data = synthetic_batches(batch_spec_of(trainer.main()), seed);
  std::vector<ValueId> values;
  for (const Role role : {Role::parameter, Role::state})
    for (const ValueId value : trainer.persistent(role)) values.push_back(value);
  std::vector<std::vector<double>> before;
  for (const ValueId value : values) before.push_back(numbers_of(value));
  Trained trained;
  Batch batch;
  for (std::int64_t i = 0; i < steps; ++i) {
    data->make(i, batch);
    trained.losses.push_back(trainer.step(batch, 0.01));
  }
  for (std::size_t v = 0; v < values.size(); ++v) {
    Trained::Change change{graph.value(values[v]).name, graph.value(values[v]).role, numbers_of(values[v])};
    for (std::size_t i = 0; i < change.numbers.size(); ++i) change.numbers[i] -= before[v][i];
    trained.changes.push_back(std::move(change));
  }
  trained.parameters = trainer.parameters_sha256();
  trained.states = trainer.states_sha256();
  return trained;
}

// Where many inputs of relus are about 0, as in a network that is not trained yet, rounding makes some relus take the other side,
// and after three steps nothing is alike, be it in tiles or not. So the norms of a new trainer get weights that keep most inputs
// away from 0 and damp what is added to a residual, as training does. They pass through a file at that path.
inline void shift_norms(Trainer& trainer, const std::string& path) {
  const Graph& graph = trainer.main().graph;
  std::map<std::string, std::vector<float>> shifted;
  std::mt19937_64 random(3);
  const auto uniform = [&](double low, double high) {
    return static_cast<float>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  };
  for (const Op& op : graph.ops()) {
    if (op.def->kind() != "batch_norm_apply" || op.phase != Phase::forward) continue;
    const bool first = shifted.empty(), residual = op.inputs.size() > 4;
    const Value &scale = graph.value(op.inputs[2]), &shift = graph.value(op.inputs[3]);
    for (std::int64_t c = 0; c < scale.type.elements(); ++c) {
      const float by = uniform(0.5, 1.5) * (residual ? 0.3F : 1);
      shifted[scale.name].push_back(by);
      shifted[shift.name].push_back(residual ? 0 : by * (first ? -1 : uniform(2, 3)));
    }
  }
  trainer.save(path);
  std::map<std::string, Array> drawn;
  std::vector<TensorEntry> entries;
  {
    const SafetensorsFile file(path);
    entries = file.entries();
    for (const TensorEntry& entry : entries) drawn[entry.name] = file.read(entry);
  }
  write_safetensors(path, entries, [&](const TensorEntry& entry, const TensorSink& sink) {
    const auto found = shifted.find(entry.name);
    sink(found == shifted.end() ? std::as_bytes(std::span(drawn.at(entry.name).data)) : std::as_bytes(std::span(found->second)));
  });
  trainer.load(SafetensorsFile(path));
}

inline double norm_of(const std::vector<double>& numbers) {
  return root_mean_square(numbers) * std::sqrt(static_cast<double>(numbers.size()));
}

// The same steps of whole values in f64, made when it is asked for.
using Truth = std::function<const Trained&()>;

// What is asked of a plan that rounds otherwise than whole values do.
struct Rounding {
  double tolerance = 1e-4;  // of every change, and of the losses
  Truth truth = nullptr;    // for what f32 cannot say so exactly; none: there is nothing such
};

// The same bits; or, where `rounding` says what is asked of tiles, the same but for that. What misses it must be wrong by more than
// the tolerance in whole values too, by the truth (a gradient that cancels out, or one from before a relu or a maximum that takes
// another side), and is then not further from the truth, up to chance, than they are. A change that is zero but for rounding is
// held to the largest of its kind.
inline void expect_same(const Trained& found, const Trained& expected, const Rounding* rounding, const std::string& what) {
  if (!rounding) {
    EXPECT_TRUE(found == expected) << what;
    return;
  }
  const double tolerance = rounding->tolerance;
  ASSERT_EQ(found.losses.size(), expected.losses.size()) << what;
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance * std::abs(expected.losses[i])) << what << ", step " << i + 1;
  ASSERT_EQ(found.changes.size(), expected.changes.size()) << what;
  std::vector<double> of_tiles, of_whole;  // errors of what misses
  double worst = 0;
  int wrong = 0;
  for (std::size_t c = 0; c < expected.changes.size(); ++c) {
    ASSERT_EQ(found.changes[c].name, expected.changes[c].name) << what;
    const std::vector<double>&numbers = found.changes[c].numbers, &whole = expected.changes[c].numbers;
    double error = relative_l2_error(numbers, whole);
    if (error > tolerance && rounding->truth) {
      const Trained& exact = rounding->truth();
      ASSERT_EQ(exact.changes.at(c).name, expected.changes[c].name);
      double largest = 0;
      for (const Trained::Change& change : exact.changes)
        if (change.kind() == exact.changes[c].kind()) largest = std::max(largest, norm_of(change.numbers));
      const bool is_zero = norm_of(exact.changes[c].numbers) < 1e-10 * largest;
      const double own = relative_l2_error(whole, exact.changes[c].numbers, is_zero ? largest : 0);
      error = relative_l2_error(numbers, whole, is_zero ? largest : 0);
      if (error > tolerance && own > tolerance) {
        of_whole.push_back(own);
        of_tiles.push_back(relative_l2_error(numbers, exact.changes[c].numbers, is_zero ? largest : 0));
        continue;
      }
    }
    // The first of those that are wrong tells enough.
    if (!(error <= tolerance) && wrong++ == 0) ADD_FAILURE() << what << ": " << expected.changes[c].name << " is off by " << error;
    worst = std::max(worst, error);
  }
  EXPECT_EQ(wrong, 0) << what << ": changes that are off by more than " << tolerance;
  fmt::print("{}: {:.1e}", what, worst);
  if (!of_tiles.empty()) {
    const double tiles = root_mean_square(of_tiles), own = root_mean_square(of_whole);
    fmt::print("; {} of {} from f64: {:.1e}, keep {:.1e}", of_tiles.size(), expected.changes.size(), tiles, own);
    EXPECT_LE(tiles, 2 * own) << what;
    EXPECT_LE(own, 0.1) << what << ": whole values are so far from the truth that this says nothing";
  }
  fmt::print("\n");
}

}  // namespace outsize
