#pragma once

#include <cstdint>

#include "ops/both.h"

namespace outsize {

// The Dice coefficient of one column of dice_sums and its derivatives: f = (2a + s) / (b + c + s).
struct DiceFraction {
  double value;
  double by_product;  // ∂f/∂a
  double by_sum;      // ∂f/∂b = ∂f/∂c

  OUTSIZE_BOTH DiceFraction(double product, double p, double target, double smooth) {
    const double above = 2 * product + smooth, below = p + target + smooth;
    value = above / below;
    by_product = 2 / below;
    by_sum = -above / (below * below);
  }
};

// The loss of sums [3, columns].
template <class T>
double dice_loss_of(const T* sums, std::int64_t columns, double smooth) {
  double total = 0;
  for (std::int64_t i = 0; i < columns; ++i)
    total += 1 - DiceFraction(static_cast<double>(sums[i]), static_cast<double>(sums[columns + i]),
                              static_cast<double>(sums[2 * columns + i]), smooth)
                     .value;
  return total / static_cast<double>(columns);
}

// The gradient of one of `columns` columns, times scale.
template <class T>
OUTSIZE_BOTH void dice_column_gradient(const T* sums, std::int64_t columns, std::int64_t i, double smooth, double scale,
                                       T* gradient) {
  const DiceFraction fraction(static_cast<double>(sums[i]), static_cast<double>(sums[columns + i]),
                              static_cast<double>(sums[2 * columns + i]), smooth);
  gradient[i] = static_cast<T>(scale * fraction.by_product);
  gradient[columns + i] = gradient[2 * columns + i] = static_cast<T>(scale * fraction.by_sum);
}

// Its gradient times dloss, for a box of `columns` columns of `all`.
template <class T>
void dice_loss_gradient(const T* sums, std::int64_t columns, std::int64_t all, double smooth, double dloss, T* gradient) {
  const double scale = -dloss / static_cast<double>(all);
  for (std::int64_t i = 0; i < columns; ++i) dice_column_gradient(sums, columns, i, smooth, scale, gradient);
}

}  // namespace outsize
