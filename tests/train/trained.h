#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "../batches.h"
#include "../step_runs.h"
#include "run/batch_spec.h"
#include "run/trainer.h"

namespace outsize {

// What some steps of training come to.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<double>> first;  // every parameter after the first step
  std::string parameters;                  // checksums
  std::string states;
  bool operator==(const Trained&) const = default;
};

inline Trained train(Trainer& trainer, std::int64_t steps) {
  const Graph& graph = trainer.main().graph;
  const std::unique_ptr<Loader> data = synthetic_batches(batch_spec_of(trainer.main()), 5);
  Trained trained;
  Batch batch;
  for (std::int64_t i = 0; i < steps; ++i) {
    data->make(i, batch);
    trained.losses.push_back(trainer.step(batch, 0.01));
    if (i > 0) continue;
    for (const ValueId value : trainer.persistent(Role::parameter))
      trained.first.push_back(as_doubles(graph.value(value).type.dtype, trainer.read(value)));
  }
  trained.parameters = trainer.parameters_sha256();
  trained.states = trainer.states_sha256();
  return trained;
}

// Every parameter after the first step, in f64.
using Truth = std::function<std::vector<std::vector<double>>()>;

// The same bits; or, of a plan that rounds otherwise (tiles), the same first step but for rounding. Later steps begin from what has
// been rounded, and by the third, norms over a few elements have made per cents of it. Where f32 itself is wrong by more than the
// tolerance (a relu or a maximum takes another side), what misses it is not further from the truth than whole values are, up to
// chance; without a truth nothing may miss.
inline void expect_same(const Trained& found, const Trained& expected, bool rounding, const std::string& what,
                        const Truth& truth = nullptr) {
  if (!rounding) {
    EXPECT_TRUE(found == expected) << what;
    return;
  }
  ASSERT_EQ(found.losses.size(), expected.losses.size()) << what;
  EXPECT_NEAR(found.losses[0], expected.losses[0], 1e-5 * std::abs(expected.losses[0])) << what;
  ASSERT_EQ(found.first.size(), expected.first.size()) << what;
  std::vector<std::size_t> missed;
  for (std::size_t p = 0; p < found.first.size(); ++p) {
    const double error = relative_error(found.first[p], expected.first[p]);
    if (error > 1e-4 && truth)
      missed.push_back(p);
    else
      EXPECT_LE(error, 1e-4) << what << ", parameter " << p;
  }
  if (missed.empty()) {
    EXPECT_NEAR(found.losses[1], expected.losses[1], 1e-4 * std::abs(expected.losses[1])) << what << ", second step";
    return;
  }
  const std::vector<std::vector<double>> exact = truth();
  std::vector<double> of_tiles, of_whole;
  for (const std::size_t p : missed) {
    of_tiles.push_back(relative_error(found.first[p], exact[p]));
    of_whole.push_back(relative_error(expected.first[p], exact[p]));
  }
  fmt::print("{}: {} of {} parameters from f64: {:.1e}, keep {:.1e}\n", what, missed.size(), exact.size(),
             root_mean_square(of_tiles), root_mean_square(of_whole));
  EXPECT_LE(root_mean_square(of_tiles), 2 * root_mean_square(of_whole)) << what;
}

}  // namespace outsize
