#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace outsize {

// What some steps of training come to.
struct Trained {
  std::vector<double> losses;
  std::string parameters;  // checksums
  std::string states;
  bool operator==(const Trained&) const = default;
};

// The same bits; or, of a plan that rounds otherwise (tiles), the same losses of the first two steps but for rounding, which grows
// from step to step: by the third, norms over a few elements have made per cents of it.
inline void expect_same(const Trained& found, const Trained& expected, bool rounding, const std::string& what) {
  if (!rounding) {
    EXPECT_TRUE(found == expected) << what;
    return;
  }
  ASSERT_EQ(found.losses.size(), expected.losses.size()) << what;
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(found.losses[i], expected.losses[i], (i == 0 ? 1e-5 : 1e-3) * std::abs(expected.losses[i]))
        << what << ", step " << i;
}

}  // namespace outsize
