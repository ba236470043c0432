#include "base/few.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace outsize {
namespace {

using testing::ElementsAre;

struct Pair {
  int a = 0;
  int b = 0;
  bool operator==(const Pair&) const = default;
};
using Pairs = Few<Pair, 2>;

TEST(Few, HoldsShortAndLongLists) {
  Pairs pairs{{1, 2}};
  EXPECT_THAT(pairs, ElementsAre(Pair{1, 2}));
  pairs.push_back({3, 4});
  pairs.push_back(pairs[0]);  // the first that is not inline, and one of its own
  EXPECT_THAT(pairs, ElementsAre(Pair{1, 2}, Pair{3, 4}, Pair{1, 2}));
  EXPECT_EQ(pairs.back(), (Pair{1, 2}));
  EXPECT_TRUE(Pairs{}.empty());
}

TEST(Few, CopiesAndMovesBetweenShortAndLong) {
  const Pairs few{{1, 1}};
  const Pairs many{{1, 1}, {2, 2}, {3, 3}, {4, 4}};
  for (const Pairs* from : {&few, &many})
    for (const Pairs* to : {&few, &many}) {
      Pairs copy = *to;
      copy = *from;
      EXPECT_THAT(copy, testing::ElementsAreArray(*from));
      Pairs moved = *to;
      moved = std::move(copy);
      EXPECT_THAT(moved, testing::ElementsAreArray(*from));
      copy = *to;  // what was moved from takes anything again
      EXPECT_THAT(copy, testing::ElementsAreArray(*to));
      const Pairs& self = moved;
      moved = self;
      EXPECT_THAT(moved, testing::ElementsAreArray(*from));
    }
}

TEST(Few, DoesAsAVectorDoes) {
  std::mt19937 random(1);
  Few<int, 3> few;
  std::vector<int> vector;
  for (int step = 0; step < 10'000; ++step) {
    const int item = static_cast<int>(random() % 100);
    switch (random() % 4) {
      case 0: few = Few<int, 3>(vector); break;
      case 1: few.reserve(random() % 8); break;
      case 2:
        if (vector.size() > 6) {
          few = {item};
          vector = {item};
        }
        break;
      default: few.push_back(item); vector.push_back(item);
    }
    ASSERT_THAT(few, testing::ElementsAreArray(vector));
    ASSERT_EQ(few.size(), vector.size());
  }
}

}  // namespace
}  // namespace outsize
