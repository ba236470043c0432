#include "plan/chain/chain_checkpoint.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "small_chain.h"

namespace outsize {
namespace {

using Kind = ChainStep::Kind;

// The least forward time in units by search over all that may be done with a memory that holds any set of x.
class CheckpointSearch {
 public:
  // `free_drops`: anything may be dropped at any time. Otherwise an x may be dropped only right after its forward op, unless it has
  // outlived one before, and right after its backward op.
  CheckpointSearch(const SmallChain& small, int memory, bool free_drops)
      : small_(small), memory_(memory), free_drops_(free_drops) {}

  std::optional<int> least() {
    reach({1, 0, small_.layers()}, 0);
    while (!queue_.empty()) {
      const auto [units, state] = queue_.top();
      queue_.pop();
      if (units > best_[state]) continue;
      const auto [here, kept, to_do] = state;
      if (to_do == 0) return units;
      for (int i = 0; i < small_.layers(); ++i) {
        if (!has(here, i)) continue;
        if (free_drops_) reach({here & ~bit(i), 0, to_do}, units);
        if (!has(here, i + 1) && fits(here | bit(i + 1), i, to_do)) {
          const unsigned after = here | bit(i + 1);
          reach({after, kept | bit(i), to_do}, units + small_.forward[at(i)]);
          if (!has(kept, i)) reach({after & ~bit(i), kept, to_do}, units + small_.forward[at(i)]);
        }
      }
      const int i = to_do - 1;
      if (has(here, i) && has(here, i + 1) && fits_backward(here, i)) {
        const unsigned after = here & ~bit(i + 1);
        const unsigned still = kept & ~bit(i + 1);
        reach({after, still, i}, units);
        reach({after & ~bit(i), still & ~bit(i), i}, units);
      }
    }
    return std::nullopt;
  }

 private:
  using State = std::tuple<unsigned, unsigned, int>;  // the x in memory; those that have outlived a forward op; B ops to do

  static unsigned bit(int i) { return 1u << i; }
  static bool has(unsigned set, int i) { return (set & bit(i)) != 0; }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  std::int64_t bytes(unsigned set) const {
    std::int64_t sum = 0;
    for (int i = 0; i <= small_.layers(); ++i) sum += has(set, i) ? small_.chain.x[at(i)] : 0;
    return sum;
  }
  bool fits(unsigned set, int i, int to_do) const {
    const std::int64_t gradient = to_do == small_.layers() ? 0 : small_.chain.y[at(to_do)];
    return bytes(set) + gradient + small_.chain.forward_extra[at(i)] <= memory_;
  }
  bool fits_backward(unsigned set, int i) const {
    const Chain& chain = small_.chain;
    return bytes(set) + chain.y[at(i)] + chain.y[at(i + 1)] + chain.backward_extra[at(i)] <= memory_;
  }

  void reach(State state, int units) {
    if (free_drops_) std::get<1>(state) = 0;
    const auto [found, is_new] = best_.emplace(state, units);
    if (!is_new && found->second <= units) return;
    found->second = units;
    queue_.emplace(units, state);
  }

  const SmallChain& small_;
  int memory_;
  bool free_drops_;
  std::map<State, int> best_;
  std::priority_queue<std::pair<int, State>, std::vector<std::pair<int, State>>, std::greater<>> queue_;
};

TEST(ChainCheckpoint, optimal_steps_are_as_short_as_any) {
  Random random(21);
  int fitting = 0, recomputing = 0, shorter_with_free_drops = 0;
  for (int n = 0; n < 1000; ++n) {
    const SmallChain small = random_chain(random, 1 + n % 7);
    const int peak = static_cast<int>(peak_bytes(small.chain));
    const int memory = random.between(std::max(1, small.least_memory() - 1), std::max(peak, 1));
    SCOPED_TRACE(testing::Message() << "chain " << n << ", memory " << memory << " of " << peak);
    const std::optional<std::vector<ChainStep>> steps = optimal_checkpoint_steps(small.chain, memory, memory);
    const std::optional<int> least = CheckpointSearch(small, memory, false).least();
    const std::optional<int> least_free = CheckpointSearch(small, memory, true).least();
    ASSERT_EQ(steps.has_value(), least.has_value());
    if (!steps) continue;
    ++fitting;
    const ChainCost cost = chain_cost(small.chain, *steps);
    ASSERT_LE(cost.peak_bytes, memory);
    double backward = 0;
    for (const double seconds : small.chain.backward) backward += seconds;
    ASSERT_DOUBLE_EQ(cost.seconds, backward + small.seconds(*least));
    recomputing += cost.seconds > compute_seconds(small.chain);
    ASSERT_LE(*least_free, *least);
    shorter_with_free_drops += *least_free < *least;
  }
  EXPECT_GT(fitting, 500);
  EXPECT_GT(recomputing, 100);
  RecordProperty("shorter_with_free_drops", shorter_with_free_drops);
}

TEST(ChainCheckpoint, cuts) {
  EXPECT_EQ(periodic_checkpoints(5, 2), (std::vector<bool>{true, false, true, false, false}));
  EXPECT_EQ(periodic_checkpoints(3, 3), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(sqrt_checkpoints(1), (std::vector<bool>{true}));
  EXPECT_EQ(sqrt_checkpoints(9), (std::vector<bool>{true, false, false, true, false, false, true, false, false}));
  EXPECT_THROW(periodic_checkpoints(2, 3), InternalError);
}

TEST(ChainCheckpoint, segments_are_made_again_one_at_a_time) {
  const std::vector<ChainStep> steps = checkpoint_steps({true, false, false, true, false});
  const std::vector<ChainStep> expected{
      {Kind::forward, 0}, {Kind::forward, 1},  {Kind::drop, 1},     {Kind::forward, 2},  {Kind::drop, 2},
      {Kind::forward, 3}, {Kind::forward, 4},  {Kind::backward, 4}, {Kind::backward, 3}, {Kind::forward, 0},
      {Kind::forward, 1}, {Kind::backward, 2}, {Kind::backward, 1}, {Kind::backward, 0},
  };
  EXPECT_EQ(steps, expected);
  // x_i of 2^i bytes. Forward: F_4 has x_0, x_3, x_4 and x_5: 57; B_4 the same; B_2 has x_0 … x_3: 15.
  const Chain chain{.forward = {1, 2, 4, 8, 16},
                    .backward = {1, 1, 1, 1, 1},
                    .x = {1, 2, 4, 8, 16, 32},
                    .y = {0, 0, 0, 0, 0, 0},
                    .forward_extra = {0, 0, 0, 0, 0},
                    .backward_extra = {0, 0, 0, 0, 0}};
  const ChainCost cost = chain_cost(chain, steps);
  EXPECT_DOUBLE_EQ(cost.seconds, 31 + 5 + 3);
  EXPECT_EQ(cost.peak_bytes, 57);
  EXPECT_EQ(chain_cost(chain, checkpoint_steps({true, true, true, true, true})).peak_bytes, 63);
}

TEST(ChainCheckpoint, steps_that_cannot_run_are_our_mistake) {
  const Chain chain{
      .forward = {1, 1}, .backward = {1, 1}, .x = {1, 1, 1}, .y = {1, 1, 1}, .forward_extra = {0, 0}, .backward_extra = {0, 0}};
  EXPECT_THROW(chain_cost(chain, {{Kind::forward, 1}}), InternalError);
  EXPECT_THROW(chain_cost(chain, {{Kind::forward, 0}}), InternalError);
  EXPECT_THROW(chain_cost(chain, {{Kind::forward, 0}, {Kind::backward, 0}}), InternalError);
  EXPECT_THROW(chain_cost(chain, {{Kind::forward, 0}, {Kind::drop, 0}, {Kind::forward, 0}}), InternalError);
}

// With the memory that √ segments take.
TEST(ChainCheckpoint, optimal_steps_are_no_slower_than_sqrt) {
  Random random(22);
  for (int n = 0; n < 50; ++n) {
    const int layers = random.between(4, 40);
    const SmallChain small = random_chain(random, layers);
    const ChainCost by_sqrt = chain_cost(small.chain, checkpoint_steps(sqrt_checkpoints(static_cast<std::size_t>(layers))));
    const std::optional<std::vector<ChainStep>> steps =
        optimal_checkpoint_steps(small.chain, by_sqrt.peak_bytes, static_cast<int>(by_sqrt.peak_bytes));
    ASSERT_TRUE(steps);
    const ChainCost cost = chain_cost(small.chain, *steps);
    EXPECT_LE(cost.seconds, by_sqrt.seconds);
    EXPECT_LE(cost.peak_bytes, by_sqrt.peak_bytes);
  }
}

TEST(ChainCheckpoint, coarse_slots_still_fit_in_bytes) {
  Random random(23);
  int found = 0;
  for (int n = 0; n < 100; ++n) {
    const SmallChain small = random_chain(random, random.between(2, 30), 100);
    const int memory = random.between(small.least_memory(), static_cast<int>(peak_bytes(small.chain)));
    const std::optional<std::vector<ChainStep>> best = optimal_checkpoint_steps(small.chain, memory, memory);
    for (const int slots : {500, 50, 7}) {
      const std::optional<std::vector<ChainStep>> steps = optimal_checkpoint_steps(small.chain, memory, slots);
      if (!steps) continue;
      ++found;
      ASSERT_TRUE(best);
      const ChainCost cost = chain_cost(small.chain, *steps);
      EXPECT_LE(cost.peak_bytes, memory);
      EXPECT_GE(cost.seconds, chain_cost(small.chain, *best).seconds);
    }
  }
  EXPECT_GT(found, 200);
}

}  // namespace
}  // namespace outsize
