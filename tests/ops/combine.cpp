#include "ops/combine.h"

#include <gtest/gtest.h>

#include <vector>

namespace outsize::test {
namespace {

template <class T>
std::vector<T> combined(Combine rule, DType dtype, std::vector<T> total, const std::vector<T>& part) {
  combine_into(rule, dtype, reinterpret_cast<std::byte*>(total.data()), reinterpret_cast<const std::byte*>(part.data()),
               static_cast<std::int64_t>(part.size()));
  return total;
}

TEST(Combine, Sum) {
  EXPECT_EQ(combined<float>(Combine::sum, DType::f32, {1, 2}, {0.5f, -2}), (std::vector<float>{1.5f, 0}));
  EXPECT_EQ(combined<double>(Combine::sum, DType::f64, {1, 2}, {0.5, -2}), (std::vector<double>{1.5, 0}));
}

TEST(Combine, WelfordOfTwoChannels) {
  // Channel 0: {1, 3} and {5, 7}: means 2 and 6, M2 2 and 2; together mean 4, M2 9+1+1+9 = 20.
  // Channel 1: {2, 4} and {9}: mean 3 and M2 2, then 9 and 0; together mean 5, M2 9+1+16 = 26.
  EXPECT_EQ(combined<double>(Combine::welford, DType::f64, {2, 2, 2, 3, 2, 2}, {2, 1, 6, 9, 2, 0}),
            (std::vector<double>{4, 3, 4, 5, 20, 26}));
}

TEST(Combine, WelfordOfNothing) {
  const std::vector<double> nothing{0, 0, 0}, some{2, 3, 2};
  EXPECT_EQ(combined<double>(Combine::welford, DType::f64, nothing, some), some);
  EXPECT_EQ(combined<double>(Combine::welford, DType::f64, some, nothing), some);
  EXPECT_EQ(combined<double>(Combine::welford, DType::f64, nothing, nothing), nothing);
}

TEST(Combine, RefusesWhatHasNoRule) {
  EXPECT_THROW(combined<float>(Combine::none, DType::f32, {1}, {1}), InternalError);
  EXPECT_THROW(combined<float>(Combine::welford, DType::f32, {1, 1, 1}, {1, 1, 1}), InternalError);
}

}  // namespace
}  // namespace outsize::test
