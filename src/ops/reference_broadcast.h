#pragma once

#include "ops/broadcast.h"
#include "ops/reference_support.h"

namespace outsize {

// Where the element at position `at` of the result is in an operand that broadcasts to it.
inline Dims operand_position(const Dims& operand, const Dims& result, const Dims& at) {
  Dims position = operand;
  for (int own = 0; own < operand.rank(); ++own) {
    const int dim = own + result.rank() - operand.rank();
    position[own] = operand[own] == result[dim] ? at[dim] : 0;
  }
  return position;
}

// y = function(a, b), broadcasting; `function` is a generic lambda: it is called in f32 or f64.
template <class Function>
void reference_broadcast(const ReferenceCall& call, const Function& function) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto a = call.in<T>(0);
    const auto b = call.in<T>(1);
    const auto y = call.out<T>(0);
    const Dims& shape = call.out_type(0).shape;
    y.for_each([&](const Dims& at) {
      y[at] =
          function(a[operand_position(call.in_type(0).shape, shape, at)], b[operand_position(call.in_type(1).shape, shape, at)]);
    });
    y.clear_padding();
  });
}

}  // namespace outsize
