#include "ops/reference_support.h"
#include "ops/registry.h"
#include "ops/window.h"

namespace outsize {
namespace {

AdaptiveWindow adaptive_window(const Dims& input, const Dims& output) { return {{input[2], output[2]}, {input[3], output[3]}}; }

// Divides by what the whole window holds, so that the contributions of parts of it add up to its mean.
void adaptive_avg_pool(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    const AdaptiveWindow windows = adaptive_window(call.in_type(0).shape, call.out_type(0).shape);
    y.for_each([&](const Dims& p) {
      const Interval rows = windows.h.inputs_of({p[2], p[2] + 1});
      const Interval columns = windows.w.inputs_of({p[3], p[3] + 1});
      const Interval held_rows = intersect(rows, x.range(2));
      const Interval held_columns = intersect(columns, x.range(3));
      T sum{0};
      for (std::int64_t h = held_rows.lo; h < held_rows.hi; ++h)
        for (std::int64_t w = held_columns.lo; w < held_columns.hi; ++w) sum += x(p[0], p[1], h, w);
      y[p] = sum / static_cast<T>(rows.size() * columns.size());
    });
    y.clear_padding();
  });
}

void adaptive_avg_pool_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<T> dx = call.out<T>(0);
    const AdaptiveWindow windows = adaptive_window(call.out_type(0).shape, call.in_type(0).shape);
    dx.clear();
    dy.for_each([&](const Dims& p) {
      const Interval rows = windows.h.inputs_of({p[2], p[2] + 1});
      const Interval columns = windows.w.inputs_of({p[3], p[3] + 1});
      const Interval held_rows = intersect(rows, dx.range(2));
      const Interval held_columns = intersect(columns, dx.range(3));
      const T share = dy[p] / static_cast<T>(rows.size() * columns.size());
      for (std::int64_t h = held_rows.lo; h < held_rows.hi; ++h)
        for (std::int64_t w = held_columns.lo; w < held_columns.hi; ++w) dx(p[0], p[1], h, w) += share;
    });
  });
}

}  // namespace

void reference_adaptive_avg_pool(KernelTable& table) {
  table.add("adaptive_avg_pool", reference_kernel<adaptive_avg_pool>);
  table.add("adaptive_avg_pool_grad", reference_kernel<adaptive_avg_pool_grad>);
}

}  // namespace outsize
