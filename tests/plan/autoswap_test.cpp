#include "plan/planners/autoswap.h"

#include <gtest/gtest.h>

namespace outsize {
namespace {

// Eight runs of a second each; above the limit of 10 the load is 0, 4, 4, 4, 10, 10, 0, 0. Copies move 4 bytes a second.
//       bytes  runs   DOA                   AOA   WDOA
//   0     1    1 – 6  6 − 2 · 1/4 =  5.5     5.5  4 + 4 + 4 + 10 + 10 = 32
//   1     8    1 – 5  5 − 2 · 8/4 =  1       8                          32
//   2     3    1 – 4  4 − 2 · 3/4 =  2.5     7.5                        22
//   3     6    4 – 5  2 − 2 · 6/4 = −1      −6                          20
AbsenceChoice hand_choice() {
  return {.seconds = Table<double>(8, 1.0),
          .load = {5, 14, 14, 14, 20, 20, 9, 5},
          .limit = 10,
          .absences = {{1, 0, 7}, {8, 0, 6}, {3, 0, 5}, {6, 3, 6}},
          .out_rate = 4,
          .in_rate = 4};
}

using Order = std::vector<std::int64_t>;

// Without 0 and 2 run 5 is the peak, with 19 bytes, which 1 and 3 cover; without 1 too it has 11.
TEST(Autoswap, ByDurationOfAbsence) { EXPECT_EQ(choose_absences(hand_choice(), {.doa = 1}), (Order{0, 2, 1, 3})); }

// Without 1 runs 4 and 5 have 12 bytes, without 2 the first of them 9; then 0 and 3 cover the other.
TEST(Autoswap, ByAreaOfAbsence) { EXPECT_EQ(choose_absences(hand_choice(), {.aoa = 1}), (Order{1, 2, 0, 3})); }

// 0 and 1 are equal. Without them runs 4 and 5 have 11 bytes; 2 brings the first of them down, and 3 the other.
TEST(Autoswap, ByWeightedDuration) { EXPECT_EQ(choose_absences(hand_choice(), {.wdoa = 1}), (Order{0, 1, 2, 3})); }

// Without 0 and 1 only runs 4 and 5 are above the limit, by 1: 2 covers one of them, 3 both, and then all fits.
TEST(Autoswap, BySubmodularDuration) { EXPECT_EQ(choose_absences(hand_choice(), {.swdoa = 1}), (Order{0, 1, 3})); }

// DOA / 5.5 and AOA / 8: (1 + 0.6875) / 2, (0.182 + 1) / 2, (0.455 + 0.9375) / 2, (−0.182 − 0.75) / 2.
TEST(Autoswap, ByWeights) {
  EXPECT_EQ(choose_absences(hand_choice(), {.doa = 0.5, .aoa = 0.5}), (Order{0, 2, 1, 3}));
  EXPECT_EQ(choose_absences(hand_choice(), {.doa = 0.25, .aoa = 0.75}), (Order{2, 1, 0, 3}));
}

TEST(Autoswap, EndsWhereNothingIsToDoOrNothingHelps) {
  AbsenceChoice choice = hand_choice();
  choice.limit = 20;
  EXPECT_EQ(choose_absences(choice, {.doa = 1}), Order{});
  choice.limit = 1;
  EXPECT_EQ(choose_absences(choice, {.doa = 1}), (Order{0, 2, 1, 3}));  // then run 6 is the peak, which none of the rest covers
}

}  // namespace
}  // namespace outsize
