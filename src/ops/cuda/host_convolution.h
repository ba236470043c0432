#pragma once

#include <algorithm>

#include "ops/cuda/block.h"
#include "ops/cuda/library/convolution.h"

#if !defined(__CUDACC__)
namespace outsize::emulated {

// What cuDNN computes for a signature, as loops of the host: it reads nothing but the signature, so that what is wrong in one
// shows here as on the card.
class HostConvolution {
 public:
  explicit HostConvolution(const ConvolutionSignature& signature) : s_(signature) { check(s_); }

  void run(const ConvolutionOperands& operands) const {
    expect_aligned(operands.x, static_cast<std::size_t>(s_.alignment));
    expect_aligned(operands.y, static_cast<std::size_t>(s_.alignment));
    auto* const x = reinterpret_cast<float*>(operands.x);
    auto* const w = reinterpret_cast<float*>(operands.w);
    auto* const y = reinterpret_cast<float*>(operands.y);
    switch (s_.pass) {
      case ConvolutionPass::forward:
        clear(y, s_.y);
        for_each([&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) { y[at_y] += w[at_w] * x[at_x]; });
        break;
      case ConvolutionPass::data:
        clear(x, s_.x);
        for_each([&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) { x[at_x] += w[at_w] * y[at_y]; });
        break;
      case ConvolutionPass::weights:
        clear(w, s_.w);
        for_each([&](std::int64_t at_x, std::int64_t at_w, std::int64_t at_y) { w[at_w] += y[at_y] * x[at_x]; });
        break;
    }
  }

 private:
  void clear(float* data, const Dims& shape) const {
    if (!s_.accumulate) std::fill_n(data, shape.product(), 0.0f);
  }
  // body(offset in x, offset in w, offset in y) for every product.
  template <class Body>
  void for_each(const Body& body) const {
    const bool deep = s_.rank() == 3;
    const auto extent = [&](const Dims& shape, int axis) {  // of D, H, W
      return deep ? shape[2 + axis] : axis == 0 ? 1 : shape[1 + axis];
    };
    const auto of = [&](const Dims& list, int axis, std::int64_t none) {
      return deep ? list[axis] : axis == 0 ? none : list[axis - 1];
    };
    const std::int64_t taps = extent(s_.w, 0) * extent(s_.w, 1) * extent(s_.w, 2);
    const std::int64_t positions = extent(s_.y, 0) * extent(s_.y, 1) * extent(s_.y, 2);
    const std::int64_t columns = s_.w[1], outputs = s_.y[1] / s_.groups();
    for (std::int64_t n = 0; n < s_.y[0] * positions; ++n)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        std::int64_t place = 0, rest_of_y = n % positions, rest_of_tap = tap, step = 1;
        bool inside = true;
        for (int axis = 3; axis-- > 0;) {
          const std::int64_t o = rest_of_y % extent(s_.y, axis), t = rest_of_tap % extent(s_.w, axis);
          const std::int64_t at = o * of(s_.stride, axis, 1) - of(s_.before, axis, 0) + t * of(s_.dilation, axis, 1);
          inside = inside && at >= 0 && at < extent(s_.x, axis);
          place += at * step;
          step *= extent(s_.x, axis);
          rest_of_y /= extent(s_.y, axis);
          rest_of_tap /= extent(s_.w, axis);
        }
        if (!inside) continue;
        const std::int64_t x = (n / positions * step + place) * s_.x[1];
        for (std::int64_t o = 0; o < s_.y[1]; ++o)
          for (std::int64_t c = 0; c < columns; ++c)
            body(x + o / outputs * columns + c, (o * columns + c) * taps + tap, n * s_.y[1] + o);
      }
  }

  ConvolutionSignature s_;
};

}  // namespace outsize::emulated
#endif
