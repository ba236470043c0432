#pragma once

#include "ops/reference_support.h"
#include "ops/resample.h"

namespace outsize {

// Calls visit(input, weight) for every input that output `o` of a resampling reads and the box `held` has.
template <class Axis, class Visit>
void for_each_input(const SpatialWindows<Axis>& windows, const Dims& o, const Box& held, const Visit& visit) {
  Box inputs = held;
  for (int dim = 0; dim < 2; ++dim) inputs.set(dim, {o[dim], o[dim] + 1});
  for (int i = 0; i < windows.rank; ++i) inputs.set(2 + i, intersect(windows[i].inputs_of({o[2 + i], o[2 + i] + 1}), held[2 + i]));
  for_each_position(inputs, [&](const Dims& at) {
    double weight = 1;
    for (int i = 0; i < windows.rank; ++i) weight *= windows[i].weight(o[2 + i], at[2 + i]);
    visit(at, weight);
  });
}

// Output 0 from input 0.
template <class Axis>
void reference_resample(const ReferenceCall& call, const SpatialWindows<Axis>& windows) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    y.for_each([&](const Dims& o) {
      double sum = 0;
      for_each_input(windows, o, x.box(), [&](const Dims& i, double weight) { sum += weight * static_cast<double>(x[i]); });
      y[o] = static_cast<T>(sum);
    });
    y.clear_padding();
  });
}

// Its gradient: output 0, of the forward op's input, from input 0, of its output.
template <class Axis>
void reference_resample_grad(const ReferenceCall& call, const SpatialWindows<Axis>& windows) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<T> dx = call.out<T>(0);
    dx.clear();
    dy.for_each([&](const Dims& o) {
      for_each_input(windows, o, dx.box(),
                     [&](const Dims& i, double weight) { dx[i] += static_cast<T>(weight * static_cast<double>(dy[o])); });
    });
  });
}

}  // namespace outsize
