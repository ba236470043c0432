#pragma once

#include "ops/reduction.h"
#include "ops/reference_support.h"

namespace outsize {

// y = scale · the sum of x, added up in f64.
inline void reference_reduction(const ReferenceCall& call, const Reduction& reduction, double scale) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto y = call.out<T>(0);
    std::vector<double> sums(static_cast<std::size_t>(y.box().elements()), 0.0);
    const View<double> totals(sums.data(), y.box(), Format::plain, {});
    x.for_each([&](const Dims& at) {
      Dims to = y.box().lo;
      for (int dim = 0; dim < at.rank(); ++dim)
        if (!reduction.sums(dim)) to[reduction.to(dim)] = at[dim];
      totals[to] += static_cast<double>(x[at]);
    });
    y.for_each([&](const Dims& at) { y[at] = static_cast<T>(scale * totals[at]); });
    y.clear_padding();
  });
}

}  // namespace outsize
