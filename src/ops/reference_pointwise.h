#pragma once

#include "ops/reference_support.h"

namespace outsize {

// y = function(x) and dx = function(dy, x or y), element by element. `function` is a generic lambda: it is called in f32 or f64.
template <class Function>
void reference_pointwise(const ReferenceCall& call, const Function& function) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto y = call.out<T>(0);
    y.for_each([&](const Dims& at) { y[at] = function(x[at]); });
    y.clear_padding();
  });
}

template <class Function>
void reference_pointwise_grad(const ReferenceCall& call, const Function& function) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto dy = call.in<T>(0);
    const auto other = call.in<T>(1);
    const auto dx = call.out<T>(0);
    dx.for_each([&](const Dims& at) { dx[at] = function(dy[at], other[at]); });
    dx.clear_padding();
  });
}

}  // namespace outsize
