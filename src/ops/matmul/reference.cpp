#include "ops/reference_support.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// y[…, m, n] = Σ_k a[…, m, k] · b[…, k, n]
void matmul(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const View<const T> a = call.in<T>(0);
    const View<const T> b = call.in<T>(1);
    const View<T> y = call.out<T>(0);
    const int last = y.box().rank() - 1;
    const bool transpose_a = call.site().integer("transpose_a") != 0, transpose_b = call.site().integer("transpose_b") != 0;
    const Interval inner = a.range(transpose_a ? last - 1 : last);
    y.for_each([&](const Dims& p) {
      Dims at_a = p, at_b = p;
      T sum{0};
      for (std::int64_t k = inner.lo; k < inner.hi; ++k) {
        at_a[transpose_a ? last : last - 1] = p[last - 1];
        at_a[transpose_a ? last - 1 : last] = k;
        at_b[transpose_b ? last : last - 1] = k;
        at_b[transpose_b ? last - 1 : last] = p[last];
        sum += a[at_a] * b[at_b];
      }
      y[p] = sum;
    });
  });
}

}  // namespace

void reference_matmul(KernelTable& table) { table.add("matmul", reference_kernel<matmul>); }

}  // namespace outsize
