#pragma once

#include "ops/cuda/reduce.h"

// What norms over maps share: the moments of channels, and the part of a box that a call owns.
namespace outsize::OUTSIZE_PLACE {

// Count, mean and sum of squared deviations; merged as Chan, Golub and LeVeque (1979) do.
struct MomentsPartial {
  double count = 0;
  double mean = 0;
  double m2 = 0;
  OUTSIZE_BOTH void merge(const MomentsPartial& other) {
    if (other.count == 0) return;
    const double both = count + other.count, delta = other.mean - mean;
    mean += delta * (other.count / both);
    m2 += other.m2 + delta * delta * (count * other.count / both);
    count = both;
  }
};

// The moments of input 0. In f32 about a shift near the mean, so that squares of what is far from 0 do not cancel.
struct Moments : WithoutFactors {
  static constexpr int kInputs = 1;
  using Partial = MomentsPartial;
  struct Run {
    float shift, sum, squares;
    OUTSIZE_BOTH void start(float first_mean) {
      shift = first_mean;
      sum = squares = 0;
    }
    OUTSIZE_BOTH void add(const float* x, NoFactors) {
      const float d = x[0] - shift;
      sum += d;
      squares += d * d;
    }
    OUTSIZE_BOTH void into(MomentsPartial& partial, int count) const {
      const double n = count, mean = sum / n;
      partial.merge({n, shift + mean, squares - sum * mean});
    }
  };
};

// What the gradients of a norm need of each channel.
struct GradSums {
  double total = 0;     // Σ dy
  double weighted = 0;  // Σ dy · (x − mean), of the mean in f32
  OUTSIZE_BOTH void merge(const GradSums& other) {
    total += other.total;
    weighted += other.weighted;
  }
  // Σ dy · (x − mean) · inv_std of the mean in f64.
  OUTSIZE_BOTH double normalized(double mean, double inv_std) const {
    const double drift = mean - static_cast<float>(mean);
    return (weighted - drift * total) * inv_std;
  }
};

// What reductions to these sums have in common: they read dy and x.
struct GradSumsReduction {
  static constexpr int kInputs = 2;
  struct Factors {
    float mean;
  };
  using Partial = GradSums;
  struct Run {
    float total, weighted;
    OUTSIZE_BOTH void start(float) { total = weighted = 0; }
    OUTSIZE_BOTH void add(const float* x, const Factors& factors) {
      total += x[0];
      weighted += x[0] * (x[1] - factors.mean);
    }
    OUTSIZE_BOTH void into(GradSums& sums, int) const { sums.merge({total, weighted}); }
  };
};

// Whether elements of a piece that holds a map's `box` lie in another box of the map.
class OwnedBox {
 public:
  OwnedBox() = default;
  OwnedBox(const Box& box, const Box& owned) {
    const int rank = box.rank();
    for (int axis = 0; axis < 3; ++axis) {
      const int dim = rank - 1 - axis;  // W, H, D
      const bool there = dim >= 2;
      extent_[axis] = there ? box.extent(dim) : 1;
      low_[axis] = there ? owned.lo[dim] - box.lo[dim] : 0;
      high_[axis] = there ? owned.hi[dim] - box.lo[dim] : 1;
    }
    low_[3] = owned.lo[0] - box.lo[0];
    high_[3] = owned.hi[0] - box.lo[0];
    low_[4] = owned.lo[1] - box.lo[1];
    high_[4] = owned.hi[1] - box.lo[1];
  }
  OUTSIZE_BOTH bool holds(Place place) const {
    std::int64_t rest = place.position;
    bool inside = place.channel >= low_[4] && place.channel < high_[4];
    OUTSIZE_UNROLL
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t index = rest % extent_[axis];
      inside = inside && index >= low_[axis] && index < high_[axis];
      rest /= extent_[axis];
    }
    return inside && rest >= low_[3] && rest < high_[3];
  }

 private:
  std::int64_t extent_[3] = {1, 1, 1};       // W, H, D
  std::int64_t low_[5] = {}, high_[5] = {};  // of W, H, D, the sample and the channel
};

}  // namespace outsize::OUTSIZE_PLACE
