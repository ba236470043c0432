#include "ops/reference_support.h"
#include "ops/registry.h"
#include "ops/window.h"

namespace outsize {
namespace {

// y[n,o,h,w] = bias[o] + Σ_c Σ_i Σ_j x[n, c, h·s − p + i, w·s − p + j] · weight[o,c,i,j]
void conv2d(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> y = call.out<T>(0);
    const Dims& kernel = call.in_type(1).shape;
    const Dims& input = call.in_type(0).shape;
    const SlidingWindow windows = sliding_window(call.site(), kernel[2], kernel[3], input[2], input[3]);
    const bool relu = call.site().word("activation") == "relu";
    const bool biased = call.has_in(2);
    y.for_each([&](const Dims& p) {
      const std::int64_t n = p[0], o = p[1];
      const Interval rows = windows.h.taps(p[2], x.range(2));
      const Interval columns = windows.w.taps(p[3], x.range(3));
      T sum = biased ? call.in<T>(2)(o) : T{0};
      for (std::int64_t c = x.range(1).lo; c < x.range(1).hi; ++c)
        for (std::int64_t i = rows.lo; i < rows.hi; ++i)
          for (std::int64_t j = columns.lo; j < columns.hi; ++j)
            sum += x(n, c, windows.h.position(p[2], i), windows.w.position(p[3], j)) * weight(o, c, i, j);
      y[p] = relu && sum < T{0} ? T{0} : sum;
    });
    y.clear_padding();
  });
}

// dx[n, c, h·s − p + i, w·s − p + j] += dy[n,o,h,w] · weight[o,c,i,j]
void conv2d_grad_data(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> dx = call.out<T>(0);
    const Dims& kernel = call.in_type(1).shape;
    const Dims& input = call.out_type(0).shape;
    const SlidingWindow windows = sliding_window(call.site(), kernel[2], kernel[3], input[2], input[3]);
    dx.clear();
    dy.for_each([&](const Dims& p) {
      const std::int64_t n = p[0], o = p[1];
      const Interval rows = windows.h.taps(p[2], dx.range(2));
      const Interval columns = windows.w.taps(p[3], dx.range(3));
      for (std::int64_t c = dx.range(1).lo; c < dx.range(1).hi; ++c)
        for (std::int64_t i = rows.lo; i < rows.hi; ++i)
          for (std::int64_t j = columns.lo; j < columns.hi; ++j)
            dx(n, c, windows.h.position(p[2], i), windows.w.position(p[3], j)) += dy[p] * weight(o, c, i, j);
    });
  });
}

// dw[o,c,i,j] = Σ_n Σ_h Σ_w dy[n,o,h,w] · x[n, c, h·s − p + i, w·s − p + j];  db[o] = Σ dy[n,o,h,w]
void conv2d_grad_weight(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> x = call.in<T>(1);
    const View<T> dw = call.out<T>(0);
    const Dims& kernel = call.out_type(0).shape;
    const Dims& input = call.in_type(1).shape;
    const SlidingWindow windows = sliding_window(call.site(), kernel[2], kernel[3], input[2], input[3]);
    dw.clear();
    dy.for_each([&](const Dims& p) {
      const std::int64_t n = p[0], o = p[1];
      const Interval rows = windows.h.taps(p[2], x.range(2));
      const Interval columns = windows.w.taps(p[3], x.range(3));
      for (std::int64_t c = x.range(1).lo; c < x.range(1).hi; ++c)
        for (std::int64_t i = rows.lo; i < rows.hi; ++i)
          for (std::int64_t j = columns.lo; j < columns.hi; ++j)
            dw(o, c, i, j) += dy[p] * x(n, c, windows.h.position(p[2], i), windows.w.position(p[3], j));
    });
    if (call.has_out(1)) {
      const View<T> db = call.out<T>(1);
      db.clear();
      dy.for_each([&](const Dims& p) { db(p[1]) += dy[p]; });
    }
  });
}

}  // namespace

void reference_conv2d(KernelTable& table) {
  table.add("conv2d", reference_kernel<conv2d>);
  table.add("conv2d_grad_data", reference_kernel<conv2d_grad_data>);
  table.add("conv2d_grad_weight", reference_kernel<conv2d_grad_weight>);
}

}  // namespace outsize
