#include <cmath>

#include "ops/plain_rows.h"
#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// Calls `function(row)` with the first position of every row of the box.
template <class Function>
void for_each_row(const Box& box, Function&& function) {
  for_each_position(with_last(box, {0, 1}), function);
}

// Where the moments hold the mean (0) or 1 / deviation (1) of a row.
Dims moment(std::int64_t which, const Dims& row) {
  Dims position{which};
  for (int i = 0; i + 1 < row.rank(); ++i) position.push_back(row[i]);
  return position;
}

void layer_norm(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<T> y = call.out<T>(0);
    const View<T> moments = call.out<T>(1);
    const std::int64_t features = last_extent(call.in_type(0).shape);
    const T count = static_cast<T>(features);
    for_each_row(y.box(), [&](const Dims& row) {
      T mean{0}, variance{0};
      for (std::int64_t c = 0; c < features; ++c) mean += x[with_last(row, c)] / count;
      for (std::int64_t c = 0; c < features; ++c) {
        const T deviation = x[with_last(row, c)] - mean;
        variance += deviation * deviation / count;
      }
      const T scale = T{1} / std::sqrt(variance + static_cast<T>(call.site().number("eps")));
      for (std::int64_t c = 0; c < features; ++c) {
        const T gamma = call.has_in(1) ? call.in<T>(1)(c) : T{1};
        const T beta = call.has_in(2) ? call.in<T>(2)(c) : T{0};
        y[with_last(row, c)] = (x[with_last(row, c)] - mean) * scale * gamma + beta;
      }
      moments[moment(0, row)] = mean;
      moments[moment(1, row)] = scale;
    });
  });
}

// With x̂ = (x − mean) · scale and g = dy · gamma: dx = scale · (g − mean(g) − x̂ · mean(g · x̂)).
void layer_norm_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> x = call.in<T>(1);
    const View<const T> moments = call.in<T>(2);
    const View<T> dx = call.out<T>(0);
    const std::int64_t features = last_extent(call.in_type(0).shape);
    const T count = static_cast<T>(features);
    for_each_row(dx.box(), [&](const Dims& row) {
      const T mean = moments[moment(0, row)], scale = moments[moment(1, row)];
      const auto normal = [&](std::int64_t c) { return (x[with_last(row, c)] - mean) * scale; };
      const auto g = [&](std::int64_t c) { return dy[with_last(row, c)] * (call.has_in(3) ? call.in<T>(3)(c) : T{1}); };
      T sum{0}, product{0};
      for (std::int64_t c = 0; c < features; ++c) {
        sum += g(c);
        product += g(c) * normal(c);
      }
      for (std::int64_t c = 0; c < features; ++c)
        dx[with_last(row, c)] = scale * (g(c) - sum / count - normal(c) * product / count);
    });
  });
}

void layer_norm_grad_params(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> x = call.in<T>(1);
    const View<const T> moments = call.in<T>(2);
    const View<T> dgamma = call.out<T>(0);
    const View<T> dbeta = call.out<T>(1);
    dgamma.clear();
    dbeta.clear();
    dy.for_each([&](const Dims& p) {
      dgamma(last_extent(p)) += dy[p] * (x[p] - moments[moment(0, p)]) * moments[moment(1, p)];
      dbeta(last_extent(p)) += dy[p];
    });
  });
}

}  // namespace

void reference_layer_norm(KernelTable& table) {
  table.add("layer_norm", reference_kernel<layer_norm>);
  table.add("layer_norm_grad", reference_kernel<layer_norm_grad>);
  table.add("layer_norm_grad_params", reference_kernel<layer_norm_grad_params>);
}

}  // namespace outsize
