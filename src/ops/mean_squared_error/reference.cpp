#include "ops/reference_support.h"

namespace outsize {
namespace {

void mean_squared_error(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto target = call.in<T>(1);
    double sum = 0;
    x.for_each([&](const Dims& at) {
      const double difference = static_cast<double>(x[at]) - target[at];
      sum += difference * difference;
    });
    call.out<T>(0)(std::int64_t{0}) = static_cast<T>(sum / static_cast<double>(call.in_type(0).elements()));
  });
}

void mean_squared_error_grad(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const auto x = call.in<T>(0);
    const auto target = call.in<T>(1);
    const auto dx = call.out<T>(0);
    const T factor = 2 * call.in<T>(2)(std::int64_t{0}) / static_cast<T>(call.in_type(0).elements());
    dx.for_each([&](const Dims& at) { dx[at] = factor * (x[at] - target[at]); });
    dx.clear_padding();
  });
}

}  // namespace

void reference_mean_squared_error(KernelTable& table) {
  table.add("mean_squared_error", reference_kernel<mean_squared_error>);
  table.add("mean_squared_error_grad", reference_kernel<mean_squared_error_grad>);
}

}  // namespace outsize
