#include "plan/chain/chain.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace outsize {
namespace {

// Two layers; every number below is worked out by hand.
Chain two_layers() {
  return {
      .forward = {1, 2}, .backward = {3, 4}, .x = {10, 20, 30}, .y = {1, 2, 3}, .forward_extra = {5, 0}, .backward_extra = {0, 7}};
}

TEST(Chain, peak_is_the_most_of_all_ops) {
  // F_0: 10 + 20 + 5 = 35; F_1: 60; B_1: 60 + 2 + 3 + 7 = 72; B_0: 30 + 1 + 2 = 33.
  EXPECT_EQ(peak_bytes(two_layers()), 72);
  EXPECT_EQ(forward_bytes(two_layers(), 0), 35);
  EXPECT_EQ(backward_bytes(two_layers(), 1), 62);
}

TEST(Chain, proposition_3_is_a_product) {
  EXPECT_DOUBLE_EQ(lower_bound(two_layers(), 62, 1), 20);  // 2 · (72 − 62) / 1
  EXPECT_DOUBLE_EQ(lower_bound(two_layers(), 62, 4), 10);  // 5 s of transfers, 1 + 2 + 3 + 4 s of ops
  EXPECT_DOUBLE_EQ(lower_bound(two_layers(), 72, 1), 10);
}

TEST(Chain, tighter_bound_looks_at_both_sides_of_an_op) {
  // B_1 has 3 s before it and 3 s after it: max(3, 10) + 4 + max(3, 10).
  EXPECT_DOUBLE_EQ(tighter_lower_bound(two_layers(), 62, 1, 1), 24);
  // Coming back takes half as long: 10 + 4 + 5.
  EXPECT_DOUBLE_EQ(tighter_lower_bound(two_layers(), 62, 1, 2), 19);
  EXPECT_DOUBLE_EQ(tighter_lower_bound(two_layers(), 100, 1, 1), 10);
}

TEST(Chain, bad_lengths_are_our_mistake) {
  Chain chain = two_layers();
  check_chain(chain);
  chain.x.pop_back();
  EXPECT_THROW(check_chain(chain), InternalError);
}

TEST(Chain, slots_are_rounded_up) {
  EXPECT_EQ(slots_up(0, 10, 100), 0);
  EXPECT_EQ(slots_up(1, 10, 100), 1);
  EXPECT_EQ(slots_up(10, 10, 100), 1);
  EXPECT_EQ(slots_up(11, 10, 100), 2);
  EXPECT_EQ(slots_up(250, 10, 100), 25);
  EXPECT_EQ(slots_up(std::int64_t{3} << 40, 500, std::int64_t{1} << 40), 1500);
}

}  // namespace
}  // namespace outsize
