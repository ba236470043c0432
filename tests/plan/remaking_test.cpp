// The search for sequences of runs, on problems small enough to be worked out by hand or searched through.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "plan/analysis/min_cut.h"
#include "plan/reckon/bounds.h"
#include "plan/remaking/held_cut.h"
#include "plan/remaking/sequence_search.h"
#include "small_chain.h"

namespace outsize {
namespace {

std::int32_t add_op(RemakeProblem& problem, double seconds, const std::set<std::int32_t>& inputs, std::int64_t bytes, bool again,
                    std::int64_t workspace = 0) {
  const auto op = static_cast<std::int32_t>(problem.ops.size()), value = static_cast<std::int32_t>(problem.values.size());
  problem.ops.push_back(
      {.seconds = seconds, .workspace = workspace, .inputs = {inputs.begin(), inputs.end()}, .outputs = {value}, .again = again});
  for (const std::int32_t input : inputs) problem.values[input].readers.push_back(op);
  problem.values.push_back({.bytes = bytes, .producer = op});
  return value;
}

// Layers in a row: f_i makes x_{i+1} of x_i, 10 bytes each, in 1 s; b_i reads x_i and the gradient of x_{i+1}, and makes that of
// x_i.
RemakeProblem chain(int layers) {
  RemakeProblem problem;
  problem.values.push_back({.bytes = 10});
  std::vector<std::int32_t> x{0};
  for (int i = 0; i < layers; ++i) x.push_back(add_op(problem, 1, {x.back()}, 10, true));
  std::int32_t gradient = add_op(problem, 1, {x.back()}, 10, false);
  for (int i = layers; i-- > 0;) gradient = add_op(problem, 2, {x[static_cast<std::size_t>(i)], gradient}, 10, false);
  problem.values[gradient].lasts = true;
  return problem;
}

TEST(RunSequence, CountsWhatAChainHolds) {
  const RemakeProblem problem = chain(3);
  // x_0 … x_3 and the gradient of x_3: 50 bytes; 3 · 1 + 1 + 3 · 2 seconds.
  RunSequence runs(problem, {0, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(runs.peak(), 50);
  EXPECT_DOUBLE_EQ(runs.seconds(), 10);
  // x_1 and x_2 are made again for b_2, and x_1 once more for b_1. While x_2 is made again there are x_0, x_1, x_2 and the gradient
  // of x_3; while b_2 runs, x_0, x_2 and two gradients.
  runs.insert(0, 4);
  runs.insert(1, 4);
  runs.insert(0, 5);
  runs.settle();
  EXPECT_EQ(runs.peak(), 40);
  EXPECT_DOUBLE_EQ(runs.seconds(), 13);
  EXPECT_EQ(runs.sequence(), (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 4, 0, 5, 6}));
  runs.undo();
  EXPECT_EQ(runs.peak(), 50);
  EXPECT_DOUBLE_EQ(runs.seconds(), 10);
}

TEST(RunSequence, ARunThatNothingReadsGoes) {
  const RemakeProblem problem = chain(3);
  RunSequence runs(problem, {0, 1, 2, 3, 0, 1, 4, 5, 6});
  EXPECT_DOUBLE_EQ(runs.seconds(), 12);
  // Without op 1 again, op 0 again is still read by op 5.
  for (const RunSequence::Id run : std::vector(runs.further()))
    if (runs.op_of(run) == 1) runs.erase(run);
  runs.settle();
  EXPECT_DOUBLE_EQ(runs.seconds(), 11);
  runs.keep();
  runs.insert(0, 5);
  runs.settle();
  EXPECT_EQ(runs.sequence(), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 5, 6}));
}

TEST(RunSequence, HundredsOfRunsComeBetweenTwo) {
  const RemakeProblem problem = chain(3);
  RunSequence runs(problem, {0, 1, 2, 3, 4, 5, 6});
  for (int k = 0; k < 300; ++k) {
    runs.insert(0, 4);
    runs.insert(1, 4);
  }
  runs.settle();
  // Only the last of each is read. 2 seconds more; while b_2 runs, x_0, x_1 (for b_1), x_2 and two gradients are there.
  EXPECT_EQ(runs.sequence(), (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 4, 5, 6}));
  EXPECT_DOUBLE_EQ(runs.seconds(), 12);
  EXPECT_EQ(runs.peak(), 50);
  runs.undo();
  EXPECT_EQ(runs.sequence(), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_DOUBLE_EQ(runs.seconds(), 10);
  EXPECT_EQ(runs.peak(), 50);
}

TEST(RunSequence, AnInputThatEndsMayBeOverwritten) {
  RemakeProblem problem;
  problem.values.push_back({.bytes = 8});
  const std::int32_t a = add_op(problem, 1, {0}, 8, true);
  const std::int32_t b = add_op(problem, 1, {a}, 8, true);
  problem.ops[1].overwrites.push_back({b, a});
  const std::int32_t c = add_op(problem, 1, {b}, 1, false);
  problem.values[c].lasts = true;
  // 0 and a; then b in the place of a, then c.
  EXPECT_EQ(RunSequence(problem, {0, 1, 2}).peak(), 16);
  // Read later, a stays, unless it is made again.
  add_op(problem, 1, {a, 0}, 1, false);
  EXPECT_EQ(RunSequence(problem, {0, 1, 2, 3}).peak(), 25);
  EXPECT_EQ(RunSequence(problem, {0, 1, 2, 0, 3}).peak(), 18);
}

TEST(RunSequence, AnUpdateHoldsItsGradientWhileTheWeightIsRead) {
  RemakeProblem problem;
  problem.values.push_back({.bytes = 4});
  const std::int32_t y = add_op(problem, 1, {0}, 10, true);
  const std::int32_t weight = add_op(problem, 1, {y}, 7, false);  // its gradient
  const std::int32_t end = add_op(problem, 1, {y}, 10, false);    // reads the weight
  problem.values[end].lasts = true;
  problem.updates.push_back({.after_first = {1}, .after_all = {0, 2}, .reads = {weight}});
  problem.values[weight].updates = {0};
  for (RemakeProblem::Op& op : problem.ops) op.updates = {0};
  // y, the gradient and what op 2 makes.
  EXPECT_EQ(RunSequence(problem, {0, 1, 2}).peak(), 27);
}

TEST(MinCut, SeparatesAtTheNarrowestPlace) {
  // 0 → 1 → 3 carries 3, 0 → 2 → 3 carries 2, and 1 → 2 one more that 2 → 3 has no room for.
  MinCut cut(4);
  cut.add(0, 1, 4);
  cut.add(0, 2, 5);
  cut.add(1, 2, 1);
  cut.add(1, 3, 3);
  cut.add(2, 3, 2);
  EXPECT_DOUBLE_EQ(cut.run(0, 3), 5);
  EXPECT_TRUE(cut.with_source(1));
  EXPECT_TRUE(cut.with_source(2));
  EXPECT_FALSE(cut.with_source(3));
}

TEST(HeldCut, HoldsWhatIsCheaperToHold) {
  const RemakeProblem problem = chain(3);
  // A byte that costs next to nothing: all three results are held. One that costs more than an op: none is.
  EXPECT_EQ(std::ranges::count(held_by_price(problem, 1e-6), true), 3);
  EXPECT_EQ(std::ranges::count(held_by_price(problem, 1), true), 0);
  EXPECT_EQ(remake_once(problem, Table<bool>(problem.values.size(), false)),
            (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3, 4, 5, 6}));
}

TEST(Eviction, RunsAChainInLittleRoom) {
  const RemakeProblem problem = chain(6);
  for (const std::int64_t limit : {80, 70, 60, 50, 40}) {
    const Eviction made = Evictor(problem).run(limit, {});
    ASSERT_TRUE(made.fits) << limit;
    EXPECT_LE(RunSequence(problem, made.sequence).peak(), limit);
  }
  // x_i, the gradient behind it, and what is made of them.
  EXPECT_FALSE(Evictor(problem).run(29, {}).fits);
}

// The least seconds within a limit, by search over all that runs and drops may do. Written from what a sequence is; shares nothing
// with what it tests.
class AllSequences {
 public:
  explicit AllSequences(const RemakeProblem& problem) : problem_(problem) {}

  std::optional<double> least(std::int64_t limit) {
    unsigned here = 0;
    for (std::int64_t v = 0; v < problem_.values.size(); ++v)
      if (problem_.values[v].producer < 0) here |= 1u << v;
    std::map<std::pair<unsigned, unsigned>, double> best;
    using Entry = std::tuple<double, unsigned, unsigned>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    const auto reach = [&](double seconds, unsigned values, unsigned done) {
      const auto [found, fresh] = best.try_emplace({values, done}, seconds);
      if (!fresh && found->second <= seconds) return;
      found->second = seconds;
      open.push({seconds, values, done});
    };
    reach(0, here, 0);
    const unsigned all = (1u << problem_.ops.size()) - 1;
    while (!open.empty()) {
      const auto [seconds, values, done] = open.top();
      open.pop();
      if (best.at({values, done}) < seconds) continue;
      if (done == all) return seconds;
      for (std::int64_t v = 0; v < problem_.values.size(); ++v)
        if (((values >> v) & 1) != 0 && !problem_.values[v].lasts) reach(seconds, values & ~(1u << v), done);
      for (std::int64_t k = 0; k < problem_.ops.size(); ++k) {
        const RemakeProblem::Op& op = problem_.ops[k];
        if (((done >> k) & 1) != 0 && !op.again) continue;
        if (!std::ranges::all_of(op.inputs, [&](std::int32_t input) { return ((values >> input) & 1) != 0; })) continue;
        const unsigned output = 1u << op.outputs[0];
        const unsigned later = done | 1u << k;
        if (bytes(values | output) + op.workspace <= limit) reach(seconds + op.seconds, values | output, later);
        for (const RemakeProblem::Overwrite& pair : op.overwrites) {
          const unsigned left = (values & ~(1u << pair.input)) | output;
          if (bytes(left) + op.workspace <= limit) reach(seconds + op.seconds, left, later);
        }
      }
    }
    return std::nullopt;
  }

 private:
  std::int64_t bytes(unsigned values) const {
    std::int64_t sum = 0;
    for (std::int64_t v = 0; v < problem_.values.size(); ++v)
      if (((values >> v) & 1) != 0) sum += problem_.values[v].bytes;
    return sum;
  }

  const RemakeProblem& problem_;
};

RemakeProblem random_problem(Random& random, int layers) {
  RemakeProblem problem;
  problem.values.push_back({.bytes = random.between(1, 3)});
  std::vector<std::int32_t> x{0};
  std::vector<std::set<std::int32_t>> read;
  for (int i = 0; i < layers; ++i) {
    std::set<std::int32_t> inputs{x.back()};
    if (random.between(0, 2) == 0) inputs.insert(x[static_cast<std::size_t>(random.between(0, i))]);
    read.push_back(inputs);
    x.push_back(add_op(problem, random.between(1, 4), inputs, random.between(1, 4), true, random.between(0, 1)));
  }
  std::int32_t gradient = add_op(problem, 1, {x.back()}, random.between(1, 3), false);
  for (int i = layers; i-- > 0;) {
    std::set<std::int32_t> inputs = read[static_cast<std::size_t>(i)];
    if (random.between(0, 1) == 0) inputs.insert(x[static_cast<std::size_t>(i) + 1]);
    inputs.insert(gradient);
    gradient = add_op(problem, random.between(1, 4), inputs, random.between(1, 3), false);
  }
  problem.values[gradient].lasts = true;
  for (RemakeProblem::Op& op : problem.ops) {
    const std::int32_t from = op.inputs.back(), to = op.outputs[0];
    if (problem.values[from].bytes == problem.values[to].bytes && problem.values[from].producer >= 0 && random.between(0, 1) == 0)
      op.overwrites.push_back({to, from});
  }
  return problem;
}

Work work_of(const RemakeProblem& problem) {
  Work work;
  for (const RemakeProblem::Value& value : problem.values) work.values.push_back({value.bytes, value.producer, value.readers});
  for (const RemakeProblem::Op& op : problem.ops) {
    work.ops.push_back({op.seconds, op.workspace, op.inputs, op.outputs, op.again});
    for (const RemakeProblem::Overwrite& pair : op.overwrites) work.ops.back().overwrites.push_back({pair.output, pair.input});
  }
  return work;
}

TEST(RemakingBound, IsWhatAChainMustRunAgain) {
  // Three layers, and the first op of backward, 50 bytes. In 40, x_0, x_3, its gradient and one of x_1 and x_2 are there: a run
  // again of x_1 is 1 s, and one of x_2 as well, if x_1 is there.
  const Work work = work_of(chain(3));
  EXPECT_DOUBLE_EQ(remaking_bound_seconds(work, 50), 10);
  EXPECT_NEAR(remaking_bound_seconds(work, 40), 11, 0.05);
  // Without both, 2 s.
  EXPECT_NEAR(remaking_bound_seconds(work, 30), 12, 0.1);
}

TEST(RemakingBound, IsNeverAboveTheBest) {
  Random random(11);
  int above_the_ops = 0, longer = 0;
  for (int n = 0; n < 200; ++n) {
    const RemakeProblem problem = random_problem(random, 3 + n % 3);
    std::vector<std::int32_t> order;
    for (std::int32_t k = 0; k < problem.ops.size(); ++k) order.push_back(k);
    const RunSequence whole(problem, order);
    const std::int64_t limit = whole.peak() * random.between(50, 95) / 100;
    const std::optional<double> best = AllSequences(problem).least(limit);
    if (!best) continue;
    const double bound = remaking_bound_seconds(work_of(problem), limit);
    ASSERT_LE(bound, *best + 1e-9) << "problem " << n << ", " << limit << " of " << whole.peak();
    longer += *best > whole.seconds() + 1e-9;
    above_the_ops += bound > whole.seconds() + 0.1;
  }
  EXPECT_GT(longer, 40);
  EXPECT_GT(above_the_ops, longer / 3);
  std::printf("%d take longer than their ops, %d bounds say so\n", longer, above_the_ops);
}

TEST(SequenceSearch, MostlyFindsTheBestAndNeverBetter) {
  Random random(7);
  int fitting = 0, met = 0, more = 0, found_none = 0;
  for (int n = 0; n < 200; ++n) {
    const RemakeProblem problem = random_problem(random, 3 + n % 3);
    std::vector<std::int32_t> order;
    for (std::int32_t k = 0; k < problem.ops.size(); ++k) order.push_back(k);
    const RunSequence whole(problem, order);
    const std::int64_t limit = whole.peak() * random.between(55, 95) / 100;
    SCOPED_TRACE(testing::Message() << "problem " << n << ", " << limit << " of " << whole.peak());
    const std::optional<double> best = AllSequences(problem).least(limit);
    const FoundSequence found = SequenceSearch(problem).best(limit, 4000);
    ASSERT_TRUE(best || !found.found());
    if (!best) continue;
    ++fitting;
    found_none += !found.found();
    if (!found.found()) continue;
    const RunSequence runs(problem, found.sequence);
    ASSERT_LE(runs.peak(), limit);
    ASSERT_GE(runs.seconds(), *best - 1e-9);
    met += runs.seconds() <= *best + 1e-9;
    more += *best > whole.seconds() + 1e-9;
  }
  EXPECT_GT(fitting, 60);
  EXPECT_GT(more, 40);
  EXPECT_LE(found_none, fitting / 20);
  EXPECT_GE(met, fitting * 9 / 10);
  std::printf("%d fit, %d as fast as can be, %d not found\n", fitting, met, found_none);
}

}  // namespace
}  // namespace outsize
