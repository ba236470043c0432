#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../batches.h"
#include "../step_runs.h"
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
  const std::unique_ptr<Loader> data = synthetic_batches(trainer.main().batch_spec(), 5);
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

// The same bits; or, of a plan that rounds otherwise (tiles), the same first step but for rounding. Later steps begin from what has
// been rounded, and by the third, norms over a few elements have made per cents of it.
inline void expect_same(const Trained& found, const Trained& expected, bool rounding, const std::string& what) {
  if (!rounding) {
    EXPECT_TRUE(found == expected) << what;
    return;
  }
  ASSERT_EQ(found.losses.size(), expected.losses.size()) << what;
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(found.losses[i], expected.losses[i], (i == 0 ? 1e-5 : 1e-4) * std::abs(expected.losses[i]))
        << what << ", step " << i;
  ASSERT_EQ(found.first.size(), expected.first.size()) << what;
  for (std::size_t p = 0; p < found.first.size(); ++p)
    EXPECT_LE(relative_error(found.first[p], expected.first[p]), 1e-4) << what << ", parameter " << p;
}

}  // namespace outsize
