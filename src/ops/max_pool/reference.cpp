#include <cmath>
#include <limits>

#include "ops/reference_support.h"
#include "ops/registry.h"
#include "ops/window.h"

namespace outsize {
namespace {

SlidingWindow pool_window(const ReferenceCall& call, const Dims& input) {
  const std::vector<std::int64_t>& kernel = call.site().integers("kernel");
  return sliding_window(call.site(), kernel[0], kernel[1], input[2], input[3]);
}

// The first maximum in row-major order wins, except that a NaN always does: PyTorch's rule.
void max_pool(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    const View<std::uint8_t> argmax = call.out<std::uint8_t>(1);
    const SlidingWindow windows = pool_window(call, call.in_type(0).shape);
    const bool relu = call.site().word("activation") == "relu";
    y.for_each([&](const Dims& p) {
      const Interval rows = windows.h.taps(p[2], x.range(2));
      const Interval columns = windows.w.taps(p[3], x.range(3));
      T best = -std::numeric_limits<T>::infinity();
      std::int64_t where = rows.lo * windows.w.kernel + columns.lo;
      for (std::int64_t i = rows.lo; i < rows.hi; ++i)
        for (std::int64_t j = columns.lo; j < columns.hi; ++j) {
          const T candidate = x(p[0], p[1], windows.h.position(p[2], i), windows.w.position(p[3], j));
          if (candidate > best || std::isnan(candidate)) {
            best = candidate;
            where = i * windows.w.kernel + j;
          }
        }
      y[p] = relu && best < T{0} ? T{0} : best;
      argmax[p] = static_cast<std::uint8_t>(where);
    });
    y.clear_padding();
    argmax.clear_padding();
  });
}

void max_pool_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const std::uint8_t> argmax = call.in<std::uint8_t>(1);
    const View<T> dx = call.out<T>(0);
    const SlidingWindow windows = pool_window(call, call.out_type(0).shape);
    const bool relu = call.has_in(2);
    dx.clear();
    dy.for_each([&](const Dims& p) {
      if (relu && !(call.in<T>(2)[p] > T{0})) return;
      const Dims maximum{p[0], p[1], windows.h.position(p[2], argmax[p] / windows.w.kernel),
                         windows.w.position(p[3], argmax[p] % windows.w.kernel)};
      if (dx.holds(maximum)) dx[maximum] += dy[p];
    });
  });
}

}  // namespace

void reference_max_pool(KernelTable& table) {
  table.add("max_pool", reference_kernel<max_pool>);
  table.add("max_pool_grad", reference_kernel<max_pool_grad>);
}

}  // namespace outsize
