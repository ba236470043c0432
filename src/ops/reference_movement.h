#pragma once

#include "ops/movement.h"
#include "ops/reference_support.h"

namespace outsize {

// As dispatch(), for ops that only move elements: also i32.
template <class Function>
void dispatch_moved(DType dtype, Function&& function) {
  if (dtype == DType::i32) return function.template operator()<std::int32_t>();
  dispatch(dtype, std::forward<Function>(function));
}

// y[p] = x[from(p)] where x has that element, else `value`.
template <class From>
void reference_move(const ReferenceCall& call, const From& from, double value = 0) {
  dispatch_moved(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto y = call.out<T>(0);
    y.for_each([&](const Dims& at) {
      const Dims source = from(at);
      y[at] = x.holds(source) ? x[source] : static_cast<T>(value);
    });
    y.clear_padding();
  });
}

}  // namespace outsize
