#include "base/stable_list.h"

#include <gtest/gtest.h>

#include <string>

namespace outsize {
namespace {

TEST(StableList, KeepsItsItemsWhereTheyAre) {
  StableList<std::string> list;
  EXPECT_EQ(list.size(), 0);
  EXPECT_TRUE(list.begin() == list.end());
  std::vector<const std::string*> places;
  for (int i = 0; i < 1000; ++i) places.push_back(&list.emplace_back(std::to_string(i)));
  EXPECT_EQ(list.size(), 1000);
  std::size_t seen = 0;
  for (const std::string& item : list) {
    EXPECT_EQ(&item, places[seen]);
    EXPECT_EQ(item, std::to_string(seen++));
  }
  EXPECT_EQ(seen, 1000);
}

TEST(StableList, CopiesGrowOnTheirOwn) {
  StableList<int> list;
  for (int i = 0; i < 300; ++i) list.emplace_back(i);
  StableList<int> copy = list;
  const int& last = copy[299];
  for (int i = 0; i < 300; ++i) copy.emplace_back(-i);
  EXPECT_EQ(&last, &copy[299]);
  EXPECT_EQ(list.size(), 300);
  EXPECT_EQ(copy.size(), 600);
  list = std::move(copy);
  EXPECT_EQ(&last, &list[299]);
  EXPECT_EQ(list[599], -299);
}

}  // namespace
}  // namespace outsize
