#include <cmath>
#include <limits>

#include "ops/pool.h"
#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// The tap of window `o` that lies at an input position, counted in row-major order; and back.
std::int64_t tap_at(const SlidingWindows& windows, const Dims& o, const Dims& input) {
  std::int64_t tap = 0;
  for (int i = 0; i < windows.rank; ++i) tap = tap * windows[i].kernel + input[2 + i] - windows[i].position(o[2 + i], 0);
  return tap;
}
Dims input_at(const SlidingWindows& windows, const Dims& o, std::int64_t tap) {
  Dims input = o;
  for (int i = windows.rank - 1; i >= 0; --i) {
    input[2 + i] = windows[i].position(o[2 + i], tap % windows[i].kernel);
    tap /= windows[i].kernel;
  }
  return input;
}

// The first maximum in row-major order wins, except that a NaN always does: PyTorch's rule.
void max_pool(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    const View<std::uint8_t> argmax = call.out<std::uint8_t>(1);
    const SlidingWindows windows = pool_windows(call.site(), spatial(call.in_type(0).shape));
    const bool relu = call.site().word("activation") == "relu";
    y.for_each([&](const Dims& o) {
      Box one{o, o};
      for (int dim = 0; dim < o.rank(); ++dim) ++one.hi[dim];
      const Box window = intersect(windows.inputs_of(one, one[1]), x.box());
      T best = -std::numeric_limits<T>::infinity();
      std::int64_t where = tap_at(windows, o, window.lo);
      for_each_position(window, [&](const Dims& at) {
        if (!(x[at] > best) && !std::isnan(x[at])) return;
        best = x[at];
        where = tap_at(windows, o, at);
      });
      y[o] = relu && best < T{0} ? T{0} : best;
      argmax[o] = static_cast<std::uint8_t>(where);
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
    const SlidingWindows windows = pool_gradient_windows(call.site());
    const bool relu = call.has_in(2);
    dx.clear();
    dy.for_each([&](const Dims& o) {
      if (relu && call.in<T>(2)[o] <= T{0}) return;
      const Dims maximum = input_at(windows, o, argmax[o]);
      if (dx.holds(maximum)) dx[maximum] += dy[o];
    });
  });
}

}  // namespace

void reference_max_pool(KernelTable& table) {
  table.add("max_pool", reference_kernel<max_pool>);
  table.add("max_pool_grad", reference_kernel<max_pool_grad>);
}

}  // namespace outsize
