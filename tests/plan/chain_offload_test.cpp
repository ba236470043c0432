#include "plan/chain/chain_offload.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/chain/chain_dynprog.h"
#include "unit_steps.h"

namespace outsize {
namespace {

// x_0 of 4 bytes must leave before F_1 and be back before B_0; a byte takes a second.
Chain hand_chain() {
  return {.forward = {1, 1}, .backward = {2, 1}, .x = {4, 2, 3}, .y = {0, 0, 0}, .forward_extra = {0, 0}, .backward_extra = {0, 0}};
}

TEST(ChainOffload, hand_schedules) {
  const Chain chain = hand_chain();  // peak 9
  EXPECT_DOUBLE_EQ(offload_seconds(chain, {false, false}, 9, 1).value(), 5);
  EXPECT_FALSE(offload_seconds(chain, {false, false}, 8, 1));
  // Whole: F_0 [0, 1], x_0 out [0, 4], F_1 [4, 5], B_1 [5, 6], x_0 in [6, 10] since with it there would be 9 bytes, B_0 [10, 12].
  EXPECT_DOUBLE_EQ(offload_seconds(chain, {true, false}, 8, 1).value(), 12);
  // Interrupted: F_1 may begin when one byte is out: F_0 [0, 1], F_1 [1, 2], but all 4 must leave: out [0, 4], in [4, 8], of which
  // the last byte comes after B_1; B_1 anywhere before 7, B_0 [8, 10].
  EXPECT_DOUBLE_EQ(interruptible_offload_seconds(chain, {true, false}, 8, 1).value(), 10);
  // One byte leaves: out [0, 1], F_1 [1, 2], B_1 [2, 3], in [3, 4], B_0 [4, 6].
  EXPECT_DOUBLE_EQ(fractional_offload_seconds(chain, 8, 1).value(), 6);
  EXPECT_EQ(greedy_offload(chain, 8), (std::vector<bool>{true, false}));
  EXPECT_EQ(greedy_offload(chain, 9), (std::vector<bool>{false, false}));
  EXPECT_FALSE(fractional_offload_seconds(chain, 5, 1));  // F_0 needs 6
}

TEST(ChainOffload, vdnn_takes_the_best_of_all_thresholds) {
  // Ratios 1/4, 3/1, 2/2: the thresholds give {1}, {1, 2}, {0, 1, 2}, and every other of them {1}, {1}, {0, 2}. Peak 11, in F_3.
  const Chain chain{.forward = {1, 3, 2, 0},
                    .backward = {0, 0, 0, 0},
                    .x = {4, 1, 2, 0, 0},
                    .y = {0, 0, 0, 0, 0},
                    .forward_extra = {0, 0, 0, 4},
                    .backward_extra = {0, 0, 0, 0}};
  EXPECT_EQ(vdnn_offload(chain, 11, 1), (std::vector<bool>{false, false, false, false}));
  // One byte too many: x_1 leaves during F_1 and comes back in [6, 7]; {1, 2} would take until 9.
  EXPECT_EQ(vdnn_offload(chain, 10, 1), (std::vector<bool>{false, true, false, false}));
  // Four too many: {0, 2} moves 12 bytes, {0, 1, 2} 14.
  EXPECT_EQ(vdnn_offload(chain, 7, 1), (std::vector<bool>{true, false, true, false}));
  EXPECT_FALSE(vdnn_offload(chain, 3, 1));
  // One threshold alone: at 4 nothing is above, at 2 {1}, at 1 {1, 2} and {1}, below 1/4 all three and {0, 2}.
  EXPECT_EQ(vdnn_offload(chain, 11, 1, 4), (std::vector<bool>{false, false, false, false}));
  EXPECT_FALSE(vdnn_offload(chain, 10, 1, 4));
  EXPECT_EQ(vdnn_offload(chain, 11, 1, 2), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(vdnn_offload(chain, 10, 1, 1), (std::vector<bool>{false, true, false, false}));
  EXPECT_FALSE(vdnn_offload(chain, 7, 1, 1));
  EXPECT_EQ(vdnn_offload(chain, 7, 1, 0.2), (std::vector<bool>{true, false, true, false}));
}

// Every subset of every chain, against search; so is the best of them, and Greedy's relaxation.
TEST(ChainOffload, schedules_are_as_short_as_any) {
  Random random(1);
  int fitting = 0, greedy_best = 0;
  for (int n = 0; n < 1000; ++n) {
    const int layers = 1 + n % 10;
    const SmallChain small = random_chain(random, layers);
    const Chain& chain = small.chain;
    const int peak = static_cast<int>(peak_bytes(chain));
    const int memory = random.between(std::max(1, small.least_memory() - 1), std::max(peak, 1));
    const double bandwidth = small.bandwidth;
    SCOPED_TRACE(testing::Message() << "chain " << n << ", memory " << memory << " of " << peak);

    std::optional<int> best, best_whole;
    for (unsigned mask = 0; mask < 1u << layers; ++mask) {
      const std::vector<bool> offloaded = subset(layers, mask);
      const std::optional<double> whole = offload_seconds(chain, offloaded, memory, bandwidth);
      const std::optional<double> by_byte = interruptible_offload_seconds(chain, offloaded, memory, bandwidth);
      const std::optional<int> least_whole = least_units(small, memory, Transfers::whole, offloaded);
      const std::optional<int> least = least_units(small, memory, Transfers::by_byte, offloaded);
      ASSERT_EQ(whole.has_value(), least_whole.has_value()) << mask;
      ASSERT_EQ(by_byte.has_value(), least.has_value()) << mask;
      if (!least) continue;
      ASSERT_DOUBLE_EQ(*whole, small.seconds(*least_whole)) << mask;
      ASSERT_DOUBLE_EQ(*by_byte, small.seconds(*least)) << mask;
      best = std::min(*least, best.value_or(*least));
      best_whole = std::min(*least_whole, best_whole.value_or(*least_whole));
    }

    const std::optional<int> least_fractional = least_units(small, memory, Transfers::any_amount);
    const std::optional<double> fractional = fractional_offload_seconds(chain, memory, bandwidth);
    ASSERT_EQ(fractional.has_value(), least_fractional.has_value());
    ASSERT_EQ(best.has_value(), least_fractional.has_value());
    const std::optional<std::vector<bool>> dynprog = dynprog_offload(chain, memory, bandwidth, memory);
    const std::optional<std::vector<bool>> vdnn = vdnn_offload(chain, memory, bandwidth);
    ASSERT_EQ(dynprog.has_value(), best.has_value());
    if (!best) {
      EXPECT_FALSE(offload_seconds(chain, greedy_offload(chain, memory), memory, bandwidth));
      EXPECT_FALSE(vdnn);
      continue;
    }
    ++fitting;
    ASSERT_DOUBLE_EQ(*fractional, small.seconds(*least_fractional));
    ASSERT_DOUBLE_EQ(interruptible_offload_seconds(chain, *dynprog, memory, bandwidth).value(), small.seconds(*best));

    const double greedy = interruptible_offload_seconds(chain, greedy_offload(chain, memory), memory, bandwidth).value();
    ASSERT_GE(greedy, small.seconds(*best));
    if (greedy == small.seconds(*best)) ++greedy_best;
    ASSERT_GE(small.seconds(*best), *fractional);
    ASSERT_GE(small.seconds(*best_whole), small.seconds(*best));
    if (vdnn) {
      ASSERT_GE(offload_seconds(chain, *vdnn, memory, bandwidth).value(), small.seconds(*best_whole));
    }
    const double bound = lower_bound(chain, memory, bandwidth);
    const double tighter = tighter_lower_bound(chain, memory, bandwidth, bandwidth);
    ASSERT_GE(tighter, bound);
    ASSERT_GE(*fractional, tighter);
  }
  EXPECT_GT(fitting, 700);
  EXPECT_LT(greedy_best, fitting);  // else the chains are too easy to tell the two apart
}

// Theorem 1: transfers of whole activations whose sizes are to be divided into triples of sum V. The sizes V are of what
// F_{3m+2k+1} makes, as the proof needs it, x_{3m+2k+2}; the instance prints x_{3m+2k+1}.
Chain three_partition(const std::vector<int>& sizes, int parts, int sum) {
  Chain chain;
  const std::size_t n = sizes.size();
  const std::size_t layers = 5 * static_cast<std::size_t>(parts) + 1;
  chain.forward.assign(layers, 0);
  chain.backward.assign(layers, 0);
  chain.forward_extra.assign(layers, 0);
  chain.backward_extra.assign(layers, 0);
  chain.x.assign(layers + 1, 0);
  chain.y.assign(layers + 1, 0);
  std::copy(sizes.begin(), sizes.end(), chain.x.begin());
  for (std::size_t k = 0; k < static_cast<std::size_t>(parts); ++k) {
    chain.forward[n + 2 * k] = 1;
    chain.x[n + 2 * k + 2] = sum;
  }
  chain.backward[n] = parts;
  return chain;
}

// The least time over all orders of the transfers and all decisions. F of the sizes take no time, so the order of the sizes in the
// chain is the order of the transfers.
double best_of_all_orders(std::vector<int> sizes, int parts, int sum) {
  std::sort(sizes.begin(), sizes.end());
  double best = 1e9;
  do {
    const Chain chain = three_partition(sizes, parts, sum);
    for (unsigned mask = 0; mask < 1u << chain.layers(); ++mask) {
      const std::vector<bool> offloaded = subset(static_cast<int>(chain.layers()), mask);
      best = std::min(best, offload_seconds(chain, offloaded, parts * sum, sum).value_or(best));
    }
  } while (std::next_permutation(sizes.begin(), sizes.end()));
  return best;
}

TEST(ChainOffload, theorem_1_three_partition) {
  // 3 + 3 + 4 twice.
  const Chain yes = three_partition({3, 3, 4, 4, 3, 3}, 2, 10);
  std::vector<bool> sizes_leave(yes.layers(), false);
  std::fill_n(sizes_leave.begin(), 6, true);
  EXPECT_DOUBLE_EQ(offload_seconds(yes, sizes_leave, 20, 10).value(), 4);
  EXPECT_DOUBLE_EQ(best_of_all_orders({3, 3, 3, 3, 4, 4}, 2, 10), 4);
  // The same sizes in an order that does not end a transfer when F_6 ends: 3 + 3 + 3, then 4 until 1.3.
  EXPECT_GT(offload_seconds(three_partition({3, 3, 3, 4, 4, 3}, 2, 10), sizes_leave, 20, 10).value(), 4);
  // Even sizes have no triple of sum 21.
  EXPECT_GT(best_of_all_orders({6, 6, 6, 8, 8, 8}, 2, 21), 4);
  // Interrupted transfers do not care.
  EXPECT_DOUBLE_EQ(interruptible_offload_seconds(three_partition({6, 6, 6, 8, 8, 8}, 2, 21), sizes_leave, 42, 21).value(), 4);
}

// Theorem 3: whole activations that are to be divided into two halves of sum V, x_n = x_{n+1} = 0 and x_{n+2} = V.
double two_partition_seconds(const std::vector<int>& sizes, int half) {
  const std::size_t n = sizes.size();
  const std::size_t layers = n + 3;
  Chain chain;
  chain.forward.assign(layers, 0);
  chain.backward.assign(layers, 0);
  chain.forward_extra.assign(layers, 0);
  chain.backward_extra.assign(layers, 0);
  chain.x.assign(layers + 1, 0);
  chain.y.assign(layers + 1, 0);
  std::copy(sizes.begin(), sizes.end(), chain.x.begin());
  chain.x[n + 2] = half;
  chain.forward[n] = chain.backward[n] = 1;
  const std::vector<bool> decisions = dynprog_offload(chain, 2 * half, half, 2 * half).value();
  return interruptible_offload_seconds(chain, decisions, 2 * half, half).value();
}

TEST(ChainOffload, theorem_3_two_partition) {
  EXPECT_DOUBLE_EQ(two_partition_seconds({3, 1, 1, 2, 2, 1}, 5), 2);
  // Even sizes have no subset of sum 7: 8 leave and come back.
  EXPECT_DOUBLE_EQ(two_partition_seconds({4, 4, 6}, 7), 2 * 8.0 / 7);
  Random random(3);
  int halves = 0;
  for (int n = 0; n < 300; ++n) {
    std::vector<int> sizes(static_cast<std::size_t>(random.between(2, 12)));
    int total = 0;
    for (int& size : sizes) total += size = random.between(1, 30);
    if (total % 2 != 0) {
      ++sizes[0];
      ++total;
    }
    std::set<int> sums{0};
    for (const int size : sizes) {
      for (const int sum : std::set<int>(sums)) sums.insert(sum + size);
    }
    const bool divides = sums.count(total / 2) != 0;
    halves += divides;
    const double seconds = two_partition_seconds(sizes, total / 2);
    EXPECT_EQ(divides, seconds < 2 + 1e-9) << n;
    // The least sum that is at least V leaves and comes back.
    EXPECT_NEAR(seconds, 2.0 * *sums.lower_bound(total / 2) / (total / 2), 1e-9) << n;
  }
  EXPECT_GT(halves, 50);
  EXPECT_LT(halves, 250);
}

}  // namespace
}  // namespace outsize
