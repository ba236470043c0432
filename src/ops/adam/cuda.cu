#include "ops/adam/rule.h"
#include "ops/cuda/flat.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// Param, m and v from param, grad, m and v.
struct Adam {
  static constexpr int kInputs = 4, kOutputs = 3;
  using Common = AdamRule<float>;

  AdamAttributes attributes;
  const float* lr;
  const std::int32_t* step;
  const float* clip_factor;  // may be null

  OUTSIZE_BOTH Common common() const {
    return {attributes, static_cast<double>(*lr), *step, clip_factor == nullptr ? 1.0f : *clip_factor};
  }
  OUTSIZE_BOTH void operator()(const float* x, float* y, const Common& rule) const {
    const float g = rule.gradient(x[0], x[1]);
    y[1] = rule.next_m(x[2], g);
    y[2] = rule.next_v(x[3], g);
    y[0] = rule.next_param(x[0], y[1], y[2]);
  }
};

std::unique_ptr<Kernel> make_adam(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t elements = output_sheet(call, 0).elements();
  const bool clipped = has_factor(call.site);
  return make_kernel("flat", 0, [=, attributes = AdamAttributes(call.site)](const KernelRun& run) {
    const float* const clip_factor = clipped ? in<float>(run, static_cast<int>(run.in.size()) - 1) : nullptr;
    run_flat(Adam{attributes, in<float>(run, 2), in<std::int32_t>(run, 3), clip_factor},
             {in<float>(run, 0), in<float>(run, 1), in<float>(run, 4), in<float>(run, 5)},
             {out<float>(run, 0), out<float>(run, 1), out<float>(run, 2)}, elements, run.queue);
  });
}

}  // namespace

void cuda_adam(KernelTable& table) { table.add("adam", make_adam); }

}  // namespace outsize::OUTSIZE_PLACE
