#include "ops/cuda/windows.h"
#include "ops/pool.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// One dimension of the windows, in 32 bits, with what both pieces hold of it.
struct PoolAxis {
  int kernel = 1;
  int before = 0;
  int x_low = 0, x_high = 1;
  int y_low = 0, y_high = 1;
  Divide stride;

  PoolAxis() = default;
  PoolAxis(const WindowAxis& axis, Interval x, Interval y)
      : kernel(static_cast<int>(axis.kernel)),
        before(static_cast<int>(axis.before)),
        x_low(static_cast<int>(x.lo)),
        x_high(static_cast<int>(x.hi)),
        y_low(static_cast<int>(y.lo)),
        y_high(static_cast<int>(y.hi)),
        stride(axis.stride) {}

  // The first tap of a window of y's piece, from the first of x's piece on.
  OUTSIZE_BOTH int first(int window) const { return (y_low + window) * static_cast<int>(stride.by()) - before - x_low; }
  // The window's taps that x's piece has.
  OUTSIZE_BOTH int taps_low(int first_tap) const { return first_tap < 0 ? -first_tap : 0; }
  OUTSIZE_BOTH int taps_high(int first_tap) const {
    const int left = x_high - x_low - first_tap;
    return left < kernel ? left : kernel;
  }
  // The windows of y's piece that have an element of x's piece, from the first of y's piece on.
  OUTSIZE_BOTH int windows_low(int element) const {
    const int past = x_low + element + before - kernel;
    const int window = past < 0 ? 0 : static_cast<int>(stride.quotient(static_cast<std::uint32_t>(past))) + 1;
    return window > y_low ? window - y_low : 0;
  }
  OUTSIZE_BOTH int windows_high(int element) const {
    const int end = static_cast<int>(stride.quotient(static_cast<std::uint32_t>(x_low + element + before))) + 1;
    return (end < y_high ? end : y_high) - y_low;
  }
};

using PoolAxes = std::array<PoolAxis, 3>;

PoolAxes axes_of(const SlidingWindows& windows, const Box& x, const Box& y) {
  PoolAxes axes;
  for (int i = 0; i < windows.rank; ++i) axes[static_cast<std::size_t>(3 - windows.rank + i)] = {windows[i], x[2 + i], y[2 + i]};
  return axes;
}

// The first maximum in row-major order wins, except that a NaN always does.
template <bool kRelu>
struct MaxPool {
  PoolAxis depth, down, across;
  Reached reached;
  const float* x;
  float* y;
  std::uint8_t* argmax;

  template <int V>
  OUTSIZE_BOTH void at(const Spot& spot) const {
    const int d = depth.first(spot.at[0]), h = down.first(spot.at[1]), w = across.first(spot.at[2]);
    const int d_low = depth.taps_low(d), h_low = down.taps_low(h), w_low = across.taps_low(w);
    const int d_high = depth.taps_high(d), h_high = down.taps_high(h), w_high = across.taps_high(w);
    Vector<float, V> best;
    int where[V];
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      best.of[j] = -INFINITY;
      where[j] = (d_low * down.kernel + h_low) * across.kernel + w_low;
    }
    for (int a = d_low; a < d_high; ++a)
      for (int b = h_low; b < h_high; ++b) {
        const float* const line = x + reached.offset(spot.sample, d + a, h + b, w, spot.channel);
        const int tap = (a * down.kernel + b) * across.kernel;
        for (int c = w_low; c < w_high; ++c) {
          const Vector<float, V> found = load<V>(line + c * reached.channels);
          OUTSIZE_UNROLL
          for (int j = 0; j < V; ++j) {
            const bool wins = found.of[j] > best.of[j] || found.of[j] != found.of[j];
            best.of[j] = wins ? found.of[j] : best.of[j];
            where[j] = wins ? tap + c : where[j];
          }
        }
      }
    Vector<std::uint8_t, V> taps;
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) {
      if (kRelu && best.of[j] < 0) best.of[j] = 0;
      taps.of[j] = static_cast<std::uint8_t>(where[j]);
    }
    store(y + spot.offset, best);
    store(argmax + spot.offset, taps);
  }
};

// An element takes what flows into the windows whose maximum it is; with y only where that is not below or at zero.
template <bool kMasked>
struct MaxPoolGrad {
  PoolAxis depth, down, across;
  Reached reached;
  const float* dy;
  const std::uint8_t* argmax;
  const float* y;
  float* dx;

  template <int V>
  OUTSIZE_BOTH void at(const Spot& spot) const {
    Vector<float, V> sum;
    OUTSIZE_UNROLL
    for (int j = 0; j < V; ++j) sum.of[j] = 0;
    const int d_high = depth.windows_high(spot.at[0]), h_high = down.windows_high(spot.at[1]),
              w_high = across.windows_high(spot.at[2]);
    for (int a = depth.windows_low(spot.at[0]); a < d_high; ++a)
      for (int b = down.windows_low(spot.at[1]); b < h_high; ++b)
        for (int c = across.windows_low(spot.at[2]); c < w_high; ++c) {
          const std::int64_t offset = reached.offset(spot.sample, a, b, c, spot.channel);
          // The element's tap in this window.
          const int tap = ((spot.at[0] - depth.first(a)) * down.kernel + spot.at[1] - down.first(b)) * across.kernel + spot.at[2] -
                          across.first(c);
          const Vector<std::uint8_t, V> taps = load<V>(argmax + offset);
          const Vector<float, V> flow = load<V>(dy + offset);
          Vector<float, V> result;
          if (kMasked) result = load<V>(y + offset);
          OUTSIZE_UNROLL
          for (int j = 0; j < V; ++j)
            if (taps.of[j] == tap && !(kMasked && result.of[j] <= 0)) sum.of[j] += flow.of[j];
        }
    store(dx + spot.offset, sum);
  }
};

template <bool kRelu>
std::unique_ptr<Kernel> make_pool_as(const Call& call) {
  const SlidingWindows windows = pool_windows(call.site, spatial(call.site.in(0).shape));
  return make_kernel("windows", 0, [=](const KernelRun& run) {
    const PoolAxes axes = axes_of(windows, run.in_boxes[0], run.out_boxes[0]);
    const MapExtents x(run.in_boxes[0]), y(run.out_boxes[0]);
    const MaxPool<kRelu> pool{
        axes[0], axes[1], axes[2], Reached(x), in<float>(run, 0), out<float>(run, 0), out<std::uint8_t>(run, 1)};
    run_windows(pool, y, y.channels % 4 == 0 && aligned<4>(pool.x, pool.y, pool.argmax), run.queue);
  });
}

std::unique_ptr<Kernel> make_pool(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  return call.site.word("activation") == "relu" ? make_pool_as<true>(call) : make_pool_as<false>(call);
}

template <bool kMasked>
std::unique_ptr<Kernel> make_grad_as(const Call& call) {
  const SlidingWindows windows = pool_gradient_windows(call.site);
  return make_kernel("windows", 0, [=](const KernelRun& run) {
    const PoolAxes axes = axes_of(windows, run.out_boxes[0], run.in_boxes[0]);
    const MapExtents x(run.out_boxes[0]), y(run.in_boxes[0]);
    const MaxPoolGrad<kMasked> grad{axes[0],
                                    axes[1],
                                    axes[2],
                                    Reached(y),
                                    in<float>(run, 0),
                                    in<std::uint8_t>(run, 1),
                                    kMasked ? in<float>(run, 2) : nullptr,
                                    out<float>(run, 0)};
    run_windows(grad, x, x.channels % 4 == 0 && aligned<4>(grad.dy, grad.argmax, grad.y, grad.dx), run.queue);
  });
}

std::unique_ptr<Kernel> make_grad(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  return call.site.inputs() > 2 ? make_grad_as<true>(call) : make_grad_as<false>(call);
}

}  // namespace

void cuda_max_pool(KernelTable& table) {
  table.add("max_pool", make_pool);
  table.add("max_pool_grad", make_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
