#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// y[n,o] = bias[o] + Σ_i x[n,i] · weight[o,i]
void linear(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> y = call.out<T>(0);
    const bool biased = call.has_in(2);
    y.for_each([&](const Dims& p) {
      T sum = biased ? call.in<T>(2)(p[1]) : T{0};
      for (std::int64_t i = x.range(1).lo; i < x.range(1).hi; ++i) sum += x(p[0], i) * weight(p[1], i);
      y[p] = sum;
    });
  });
}

// dx[n,i] = Σ_o dy[n,o] · weight[o,i]
void linear_grad_data(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> weight = call.in<T>(1);
    const View<T> dx = call.out<T>(0);
    dx.for_each([&](const Dims& p) {
      T sum{0};
      for (std::int64_t o = dy.range(1).lo; o < dy.range(1).hi; ++o) sum += dy(p[0], o) * weight(o, p[1]);
      dx[p] = sum;
    });
  });
}

// dw[o,i] = Σ_n dy[n,o] · x[n,i];  db[o] = Σ_n dy[n,o]
void linear_grad_weight(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> x = call.in<T>(1);
    const View<T> dw = call.out<T>(0);
    dw.for_each([&](const Dims& p) {
      T sum{0};
      for (std::int64_t n = dy.range(0).lo; n < dy.range(0).hi; ++n) sum += dy(n, p[0]) * x(n, p[1]);
      dw[p] = sum;
    });
    if (call.has_out(1)) {
      const View<T> db = call.out<T>(1);
      db.clear();
      dy.for_each([&](const Dims& p) { db(p[1]) += dy[p]; });
    }
  });
}

}  // namespace

void reference_linear(KernelTable& table) {
  table.add("linear", reference_kernel<linear>);
  table.add("linear_grad_data", reference_kernel<linear_grad_data>);
  table.add("linear_grad_weight", reference_kernel<linear_grad_weight>);
}

}  // namespace outsize
