#include "ops/optimizer.h"
#include "ops/reference_support.h"

namespace outsize {
namespace {

void sgd(const ReferenceCall& call) {
  dispatch(call.in_type(0).dtype, [&]<class T>() {
    const OpSite& site = call.site();
    const auto param = call.in<T>(0);
    const auto grad = call.in<T>(1);
    const T lr = call.in<T>(2)(std::int64_t{0});
    const T factor = has_factor(site) ? call.in<T>(site.inputs() - 1)(std::int64_t{0}) : T{1};
    const bool has_buffer = site.outputs() > 1;
    const bool nesterov = site.integer("nesterov") != 0;
    const auto buffer = call.in<T>(has_buffer ? 3 : 0);
    const auto new_param = call.out<T>(0);
    const auto new_buffer = call.out<T>(has_buffer ? 1 : 0);
    const T momentum = static_cast<T>(site.number("momentum"));
    const T weight_decay = static_cast<T>(site.number("weight_decay"));
    new_param.for_each([&](const Dims& at) {
      const T gradient = factor * grad[at] + weight_decay * param[at];
      T step = gradient;
      if (has_buffer) {
        step = momentum * buffer[at] + gradient;
        new_buffer[at] = step;
        if (nesterov) step = gradient + momentum * step;
      }
      new_param[at] = param[at] - lr * step;
    });
    new_param.clear_padding();
    new_buffer.clear_padding();
  });
}

}  // namespace

void reference_sgd(KernelTable& table) { table.add("sgd", reference_kernel<sgd>); }

}  // namespace outsize
