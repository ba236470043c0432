#pragma once

#include <cmath>

#include "ops/reference_support.h"
#include "ops/softmax/op_softmax.h"

namespace outsize {

// Calls `function(at)` for every line along the axis, where at(i) is the position of its element i.
template <class Function>
void for_each_softmax_line(const Box& box, int axis, Function&& function) {
  Box lines = box;
  lines.set(axis, {box.lo[axis], box.lo[axis] + 1});
  for_each_position(lines, [&](const Dims& start) {
    function([&](std::int64_t i) {
      Dims position = start;
      position[axis] = i;
      return position;
    });
  });
}

// y = e^x / Σ e^x, or its logarithm.
template <bool kLog>
void softmax_reference(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    const int axis = softmax_axis(call.site());
    const Interval range = x.range(axis);
    for_each_softmax_line(y.box(), axis, [&](const auto& at) {
      T most = x[at(range.lo)];
      for (std::int64_t i = range.lo; i < range.hi; ++i) most = std::max(most, x[at(i)]);
      T sum{0};
      for (std::int64_t i = range.lo; i < range.hi; ++i) sum += std::exp(x[at(i)] - most);
      for (std::int64_t i = range.lo; i < range.hi; ++i)
        y[at(i)] = kLog ? x[at(i)] - most - std::log(sum) : std::exp(x[at(i)] - most) / sum;
    });
    y.clear_padding();
  });
}

// dx = y · (dy − Σ dy·y), or dx = dy − e^y · Σ dy.
template <bool kLog>
void softmax_grad_reference(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> y = call.in<T>(1);
    const View<T> dx = call.out<T>(0);
    const int axis = softmax_axis(call.site());
    const Interval range = dy.range(axis);
    for_each_softmax_line(dx.box(), axis, [&](const auto& at) {
      T sum{0};
      for (std::int64_t i = range.lo; i < range.hi; ++i) sum += kLog ? dy[at(i)] : dy[at(i)] * y[at(i)];
      for (std::int64_t i = range.lo; i < range.hi; ++i)
        dx[at(i)] = kLog ? dy[at(i)] - std::exp(y[at(i)]) * sum : y[at(i)] * (dy[at(i)] - sum);
    });
    dx.clear_padding();
  });
}

}  // namespace outsize
