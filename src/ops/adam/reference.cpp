#include "ops/adam/rule.h"
#include "ops/reference_support.h"

namespace outsize {
namespace {

void adam(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const OpSite& site = call.site();
    const auto param = call.in<T>(0);
    const auto grad = call.in<T>(1);
    const auto m = call.in<T>(4);
    const auto v = call.in<T>(5);
    const T factor = has_factor(site) ? call.in<T>(6)(std::int64_t{0}) : T{1};
    const double lr = static_cast<double>(call.in<T>(2)(std::int64_t{0}));
    const AdamRule<T> rule(AdamAttributes(site), lr, expect_adam_step(call.in<std::int32_t>(3)(std::int64_t{0})), factor);
    const auto next = call.out<T>(0);
    const auto next_m = call.out<T>(1);
    const auto next_v = call.out<T>(2);
    next.for_each([&](const Dims& at) {
      const T p = param[at];
      const T g = rule.factor * grad[at] + rule.decay * p;
      const T mean = rule.beta1 * m[at] + rule.rest1 * g;
      const T square = rule.beta2 * v[at] + rule.rest2 * g * g;
      next_m[at] = mean;
      next_v[at] = square;
      next[at] = rule.keep * p - rule.rate * mean / (std::sqrt(square) * rule.root + rule.eps);
    });
    next.clear_padding();
    next_m.clear_padding();
    next_v.clear_padding();
  });
}

}  // namespace

void reference_adam(KernelTable& table) { table.add("adam", reference_kernel<adam>); }

}  // namespace outsize
