#include "ops/cuda/flat.h"
#include "ops/sgd/rule.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Param from param and grad.
struct Plain {
  static constexpr int kInputs = 2, kOutputs = 1;
  using Common = SgdRule<float>;

  Common rule;  // without what lies in the card's memory
  const float* lr;
  const float* clip_factor;  // may be null

  OUTSIZE_BOTH Common common() const {
    Common all = rule;
    all.lr = *lr;
    if (clip_factor != nullptr) all.factor = *clip_factor;
    return all;
  }
  OUTSIZE_BOTH void operator()(const float* x, float* y, const Common& all) const {
    y[0] = all.next_param(x[0], all.gradient(x[0], x[1]));
  }
};

// Param and buffer from param, grad and buffer.
template <bool kNesterov>
struct Momentum : Plain {
  static constexpr int kInputs = 3, kOutputs = 2;

  explicit Momentum(const Plain& plain) : Plain(plain) {}
  OUTSIZE_BOTH void operator()(const float* x, float* y, const Common& all) const {
    const float gradient = all.gradient(x[0], x[1]);
    y[1] = all.next_buffer(x[2], gradient);
    y[0] = all.next_param(x[0], kNesterov ? all.nesterov_gradient(gradient, y[1]) : y[1]);
  }
};

std::unique_ptr<Kernel> make_sgd(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t elements = output_sheet(call, 0).elements();
  const bool clipped = has_factor(call.site), has_buffer = call.site.outputs() > 1;
  const bool nesterov = call.site.integer("nesterov") != 0;
  return make_kernel("flat", 0, [=, rule = SgdRule<float>(call.site)](const KernelRun& run) {
    const Plain plain{rule, in<float>(run, 2), clipped ? in<float>(run, static_cast<int>(run.in.size()) - 1) : nullptr};
    if (!has_buffer) {
      run_flat(plain, {in<float>(run, 0), in<float>(run, 1)}, {out<float>(run, 0)}, elements, run.queue);
      return;
    }
    const auto start = [&]<bool kNesterov>() {
      run_flat(Momentum<kNesterov>(plain), {in<float>(run, 0), in<float>(run, 1), in<float>(run, 3)},
               {out<float>(run, 0), out<float>(run, 1)}, elements, run.queue);
    };
    nesterov ? start.template operator()<true>() : start.template operator()<false>();
  });
}

}  // namespace

void cuda_sgd(KernelTable& table) { table.add("sgd", make_sgd); }

}  // namespace outsize::OUTSIZE_PLACE
