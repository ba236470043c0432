#include "ops/plain_rows.h"
#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// weight(o, i) whatever the order it is stored in.
template <class T>
class Weight {
 public:
  Weight(const ReferenceCall& call, const View<T>& view) : view_(view), inputs_first_(call.site().word("weight") == "io") {}
  T& operator()(std::int64_t o, std::int64_t i) const { return inputs_first_ ? view_(i, o) : view_(o, i); }
  Interval outputs() const { return view_.range(inputs_first_ ? 1 : 0); }
  Interval inputs() const { return view_.range(inputs_first_ ? 0 : 1); }

 private:
  View<T> view_;
  bool inputs_first_;
};

// y[n,o] = bias[o] + Σ_i x[n,i] · weight[o,i]
void linear(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> x = call.in<T>(0);
    const Weight<const T> weight(call, call.in<T>(1));
    const View<T> y = call.out<T>(0);
    const bool biased = call.has_in(2) && !call.in<T>(2).empty();
    y.for_each([&](const Dims& p) {
      const std::int64_t o = last_extent(p);
      T sum = biased ? call.in<T>(2)(o) : T{0};
      for (std::int64_t i = weight.inputs().lo; i < weight.inputs().hi; ++i) sum += x[with_last(p, i)] * weight(o, i);
      y[p] = sum;
    });
  });
}

// dx[n,i] = Σ_o dy[n,o] · weight[o,i]
void linear_grad_data(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const Weight<const T> weight(call, call.in<T>(1));
    const View<T> dx = call.out<T>(0);
    dx.for_each([&](const Dims& p) {
      T sum{0};
      for (std::int64_t o = weight.outputs().lo; o < weight.outputs().hi; ++o)
        sum += dy[with_last(p, o)] * weight(o, last_extent(p));
      dx[p] = sum;
    });
  });
}

// dw[o,i] = Σ_n dy[n,o] · x[n,i];  db[o] = Σ_n dy[n,o]
void linear_grad_weight(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> dy = call.in<T>(0);
    const View<const T> x = call.in<T>(1);
    const Weight<T> dw(call, call.out<T>(0));
    call.out<T>(0).clear();
    dy.for_each([&](const Dims& p) {
      for (std::int64_t i = dw.inputs().lo; i < dw.inputs().hi; ++i) dw(last_extent(p), i) += dy[p] * x[with_last(p, i)];
    });
    if (call.has_out(1)) {
      const View<T> db = call.out<T>(1);
      db.clear();
      dy.for_each([&](const Dims& p) { db(last_extent(p)) += dy[p]; });
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
