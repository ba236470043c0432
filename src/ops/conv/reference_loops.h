#pragma once

#include "ops/conv/shape.h"
#include "ops/reference_support.h"

// The loops that define convolutions and transposed ones, for 2 and 3 spatial dimensions.
namespace outsize {

struct ConvLoops {
  SlidingWindows windows;
  Channels channels;

  // sum of x[n, c, o·s − p + t·d] · weight[o, c, t] for the element of y at p
  template <int R, class T>
  T gather(const View<const T>& x, const View<const T>& weight, const Dims& p) const {
    T sum{};
    for_each_term<R>(p, x.box(), weight.range(1),
                     [&](const auto& at, const auto& tap) { sum += element<R>(x, at) * element<R>(weight, tap); });
    return sum;
  }

  // x[n, c, o·s − p + t·d] += y[p] · weight[o, c, t]
  template <int R, class T>
  void scatter(const View<const T>& y, const View<const T>& weight, const View<T>& x, const Dims& p) const {
    const T value = y[p];
    for_each_term<R>(p, x.box(), weight.range(1),
                     [&](const auto& at, const auto& tap) { element<R>(x, at) += value * element<R>(weight, tap); });
  }

  // weight[o, c, t] += y[p] · x[n, c, o·s − p + t·d]
  template <int R, class T>
  void correlate(const View<const T>& y, const View<const T>& x, const View<T>& weight, const Dims& p) const {
    const T value = y[p];
    for_each_term<R>(p, x.box(), weight.range(1),
                     [&](const auto& at, const auto& tap) { element<R>(weight, tap) += value * element<R>(x, at); });
  }

 private:
  using Index = std::array<std::int64_t, 5>;  // sample or output, channel, D (not used in 2-D), H, W

  template <int R, class T>
  static T& element(const View<T>& view, const Index& i) {
    if constexpr (R == 2)
      return view(i[0], i[1], i[3], i[4]);
    else
      return view(i[0], i[1], i[2], i[3], i[4]);
  }

  // body(index into x, index into the weight) for all that the element of y at p meets in a box of x.
  template <int R, class Body>
  void for_each_term(const Dims& p, const Box& x, Interval columns, const Body& body) const {
    const WindowAxis& high = windows[R - 2];
    const WindowAxis& wide = windows[R - 1];
    const Interval depths = R == 3 ? windows[0].taps(p[2], x[2]) : Interval{0, 1};
    const Interval rows = high.taps(p[R], x[R]);
    const Interval across = wide.taps(p[R + 1], x[R + 1]);
    const std::int64_t o = p[1];
    const Interval own = intersect(channels.columns(o, x[1]), columns);
    for (std::int64_t c = own.lo; c < own.hi; ++c)
      for (std::int64_t i = depths.lo; i < depths.hi; ++i)
        for (std::int64_t j = rows.lo; j < rows.hi; ++j)
          for (std::int64_t k = across.lo; k < across.hi; ++k)
            body(Index{p[0], channels.input(o, c), R == 3 ? windows[0].position(p[2], i) : 0, high.position(p[R], j),
                       wide.position(p[R + 1], k)},
                 Index{o, c, i, j, k});
  }
};

// function.template operator()<T, R>() for the call's dtype and spatial rank.
template <class Function>
void dispatch_conv(DType dtype, int spatial_rank, const Function& function) {
  dispatch(dtype, [&]<class T>() {
    if (spatial_rank == 2)
      function.template operator()<T, 2>();
    else
      function.template operator()<T, 3>();
  });
}

}  // namespace outsize
