#include <cmath>

#include "ops/reference_support.h"

namespace outsize {
namespace {

void square_sum(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    double sum = 0;
    x.for_each([&](const Dims& at) { sum += static_cast<double>(x[at]) * static_cast<double>(x[at]); });
    call.out<T>(0)(std::int64_t{0}) = static_cast<T>(sum);
  });
}

void clip_factor(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    double sum = 0;
    for (int i = 0; call.has_in(i); ++i) sum += static_cast<double>(call.in<T>(i)(std::int64_t{0}));
    // Of a norm that is NaN the factor is NaN too.
    const double factor = call.site().number("max_norm") / (std::sqrt(sum) + 1e-6);
    call.out<T>(0)(std::int64_t{0}) = static_cast<T>(factor > 1 ? 1 : factor);
  });
}

}  // namespace

void reference_clip(KernelTable& table) {
  table.add("square_sum", reference_kernel<square_sum>);
  table.add("clip_factor", reference_kernel<clip_factor>);
}

}  // namespace outsize
